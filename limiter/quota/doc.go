// Package quota limits how many requests clients make, regardless of their cost. It works in addition to the
// accounts of package limiter, which charge requests by their cost.
//
// A [Rule] consists of paths, a class whose keys are counted, and a [Bucket] for each key. [Rules.Count]
// checks a request against the rules that match it, reports whether it exceeds a limit, and returns header
// fields that inform the client.
//
// A [Bucket] is a leaky bucket used as a meter: requests are added to it, and drip out at a fixed pace. Its
// arithmetic has no side effects. The limits and headers are those of an earlier service. Unlike there, check
// and charge are one step, and the time of the last drip is never in the future. A [Store] keeps the buckets: a
// [MemoryStore] for this process alone, or the Store of package redis for all instances of a site. Package
// quotatest tests the behaviour that every Store must have.
package quota
