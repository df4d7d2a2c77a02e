// Package telemetry is what requests add up to, for people to look at. A request that is over
// is a [Record], made by the goroutine that served it; a [Recorder] takes it in without making
// it wait.
//
//	record.go     a request that is over: its outcome, its group
//	counts.go     exact counters, by group, and by class and request limit
//	feed.go       of many a bounded sample, for those that add up
//	accesslog.go  the access log
//	words.go      what of a request's URL may be logged and kept
//	sketch.go     how long many things took, and which of many cost most, in bounded memory
//	ledger.go     what is shown of the accounts, and the first of many keys
//	book/         what requests cost at this moment, and did in the last day and week
//	metrics/      all numbers that are shown to programs
package telemetry
