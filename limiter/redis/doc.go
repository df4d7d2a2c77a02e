// Package redis shares accounts through a Redis or Valkey server, for sites that
// run one anyway.
//
// It has two parts. A Sharer tells the server what this sidecar charged and
// learns how much the keys owe in all. A Checker keeps the buckets of request limits
// (package quota), one round trip for each check; both values of a bucket live in one
// Redis key, so that they expire together. Both parts are permissive when Redis is away:
// a Sharer then does nothing, so that each sidecar goes on alone, and a check fails at
// once with ErrAway, upon which the caller lets the request pass.
package redis
