// Package redis shares accounts through a Redis or Valkey server, for sites that
// run one anyway.
//
// It has two parts. A Sharer tells the server what this sidecar charged and
// learns how much the keys owe in all. A Checker is a leaky bucket in requests,
// one round trip for each check. Both are permissive when Redis is away: a
// Sharer then does nothing, so that each sidecar goes on alone, and a check fails
// at once with ErrAway, upon which the caller lets the request pass.
//
// The leaky bucket as a meter counts requests up and lets them drip away at a
// fixed pace. Bucket is its arithmetic alone. Next to the service whose limits
// and headers it understands, check and charge are one step, the drips' clock
// never runs ahead, and both values of a bucket live in one Redis key, so that
// they expire together.
package redis
