// Package quota limits how many requests clients make, whatever these cost: next to the
// accounts of package limiter, which charge requests by what they cost the server.
//
// A [Rule] names paths, the class whose keys are counted, and their [Bucket]. [Rules] hold
// each request against those that are for it; [Rules.Count] says whether it is one too
// many, and which header fields tell the client.
//
// What is counted is a [Bucket], a leaky bucket as a meter: it counts requests up and
// lets them drip away at a fixed pace. Its arithmetic is pure. Unlike in the service whose
// limits and headers it understands, check and charge are one step here, and the drips'
// clock never runs ahead. Buckets are kept by a [Store]: a [MemoryStore] for this process
// alone, or that of package redis for all of a site's. What every Store must do is in
// package quotatest.
package quota
