// Package daemon is what the two daemons, proxy and master, do alike: they log, tell systemd
// how they are, reload, end with a status, and listen for those who look at them.
//
//	authorities.go  who may sign certificates
//	listen.go  listeners of Prometheus and of the master's administrator
//	log.go     what a program has to say, as lines of JSON, and how they are written
//	notify.go  what systemd is told
//	plain.go   nothing that a client chose does anything in a terminal
//	reload.go  what a reload has changed, or what was wrong with it
//	status.go  how a program ends
package daemon
