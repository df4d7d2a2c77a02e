// Package redis shares accounts through a Redis or Valkey server, for sites that already run one.
//
// It has two parts. A Sharer sends the server what this instance charged, and learns which keys owe how much.
// A Checker keeps the buckets of request limits (package quota) in Redis, and needs one round trip for each
// check. Each bucket is one Redis key with two values, which therefore expire together.
//
// While Redis can't be reached, both let requests pass. A Sharer then does nothing, and each instance keeps
// its own accounts. A check fails at once with ErrAway, and its caller lets the request pass.
package redis
