// Package quota limits how many requests clients make, whatever these cost: beside the
// accounts of package limiter, which charge requests by what they cost the server.
//
// A [Rule] names paths, the class whose keys are counted, and a [Limit]. [Rules] hold
// each request against those that are for it; [Rules.Count] says whether it is one too
// many, and which header fields tell the client.
//
// What is counted is a [Bucket], a leaky bucket as a meter: it counts requests up and
// lets them drip away at a fixed pace. Its arithmetic is pure. Unlike in the service whose
// limits and headers it understands, check and charge are one step here, and the drips'
// clock never runs ahead. Buckets are kept by a [Store]: a [MemoryStore] for this process
// alone, or that of package redis for all of a site's. What every Store must do is in
// package quotatest.
//
//	bucket.go   the leaky bucket: its state, a check, how it stands after that
//	headers.go  the fields that tell clients
//	limit.go    a limit as configured, in two forms, and the bucket that it makes
//	memory.go   MemoryStore
//	rule.go     whose requests, and to which paths
//	rules.go    a request is held against all of them
//	store.go    the port that stores implement
package quota
