// Package redis shares accounts through a Redis or Valkey server, for sites that
// run one anyway.
//
// It has two parts. A Sharer sends the server what this sidecar charged, and learns how much
// the keys owe in all. A Checker keeps the buckets of request limits (package quota), one round
// trip for each check; both values of a bucket are in one Redis key, so they expire together.
// Both parts are permissive when Redis is away: a Sharer then does nothing, so each sidecar
// continues alone, and a check fails at once with ErrAway, after which the caller lets the
// request pass.
package redis
