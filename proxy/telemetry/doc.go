// Package telemetry is what requests add up to, for people to look at. A request that is
// over is a [Record], made by whoever served it; a [Recorder] takes it in and keeps nobody
// waiting.
//
//	record.go     a request that is over: its outcome, its group
//	recorders.go  several that are told of it
//	entry.go      what is kept of it for those that add up
//	feed.go       how it comes to them
//	sample.go     of many a bounded sample
//	accesslog.go  the access log
//	combined.go   its lines in Apache's format
//	words.go      what of a request's query may be logged
//	counts.go     exact counters, by group
//	counted.go    what each request leaves for them
//	shard.go      where it leaves it
//	named.go      and by class and request limit
//	nearby.go     which of the counters are this CPU's
//	totals.go     what they amount to
//	ledger.go     what is shown of the accounts
//	toprows.go    the first of many keys
//	statlog.go    the original's log of keys that wait
//	graphite*.go  the original's series
//	book/         what requests cost at this moment, and did in the last day
//	history/      what they cost hour by hour, in the last week
//	metrics/      all numbers that are shown to programs
package telemetry
