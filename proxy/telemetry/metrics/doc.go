// Package metrics shows what the proxy counts: one [Table] of all numbers, with their names
// and what they mean, and those that read it. A new number is a line of the table, and is
// then in the status of the admin API, in Graphite and in Prometheus.
//
//	state.go      what there is at a moment
//	table.go      the kinds of lines, and the table as a whole
//	requests.go   its lines: requests that are over, and who waits
//	gate.go       the gate
//	resources.go  buffers, connections, reloads
//	sharing.go    those with whom accounts are shared
//	sites.go      the sites of a shared host
//	tls.go        how connections begin, and certificates
//	series.go     the table for the status and for Graphite
//	collector.go  the table for Prometheus
//	durations.go  how long requests take, as histograms
//	histogram.go  one of them
//	nearcells.go  where a duration is counted
//	registry.go   all that Prometheus gets
//
// Labels are groups, outcomes, reasons, and what the configuration names. They are never
// addresses, URLs or User-Agents: there are as many series with a million clients as with
// one.
package metrics
