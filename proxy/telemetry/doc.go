// Package telemetry counts and logs requests, and adds them up for tables and metrics. When a request ends, the
// goroutine that served it makes a [Record] and passes it to [Recorder]s.
//
//	record.go     a finished request: its outcome, its group
//	counts.go     exact counters, by group, and by class and request limit
//	feed.go       a bounded sample of the requests, for the packages that add them up
//	accesslog.go  the access log
//	words.go      which parts of URLs may be logged and kept
//	sketch.go     histograms of durations, and the most expensive of many things, in bounded memory
//	ledger.go     the accounts of keys, as tables show them
//	book/         what requests cost now, and in each hour of the last week
//	metrics/      all numbers for Prometheus, Graphite and the status
package telemetry
