// Package redis shares accounts through a Redis or Valkey server, for sites that already run one.
//
// The package has two parts. A Sharer sends the server what this instance charged, and learns which keys are in
// debt and by how much. A Checker keeps the buckets of request limits (package quota) in Redis, and needs one
// round trip for each check. The two values of each bucket expire together, because they are stored under one
// Redis key.
//
// While Redis can't be reached, both let requests pass. The Sharer then does nothing, and each instance keeps
// its own accounts. A check fails at once with ErrAway, and its caller lets the request pass.
package redis
