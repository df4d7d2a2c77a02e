// Package sharing gives the sidecar the Sharer that its configuration names, keeps it
// running, and tells how it goes.
//
// A new way of sharing is a package beside limiter/redis and a line in table.go. Its name
// and its keys are a section of the configuration, as all keys are: config/gossip.go is an
// example, and the tests hold both tables to the same names.
//
//	table.go     each kind, with what makes its Sharer
//	gossip.go    of sidecars that tell each other
//	redis.go     through Redis, and how it is reached
//	smockron.go  through tempomat-master: which domain is of which class and master
//	sharing.go   one Sharer at work
package sharing
