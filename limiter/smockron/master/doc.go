// Package master is Smockron's master: it holds the rules that identifiers are held to, what
// it knows of each, and a store that keeps that beyond its life.
//
// A [Master] is told the time, starts no goroutine and does no I/O; [Serve] has it work on the
// wire of package smockron, which knows nothing of masters.
//
//	counts.go       what it counts
//	identifiers.go  a domain, what is known of its identifiers, who is forgotten
//	master.go       what a message of accounting causes
//	persist.go      what goes to a store and comes from it, and the port that stores implement
//	queue.go        where accounting waits
//	record.go       what a store keeps of an identifier, as text
//	rule.go         the three kinds of rules
//	serve.go        all that at work
//	store.go        a store in Redis
//	view.go         what the doctor shows
package master
