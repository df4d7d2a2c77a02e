// Command tempomat-proxy is a sidecar: a reverse proxy before one backend that
// charges each request what it costs, and lets nobody take more than their
// share of the server.
//
// Usage:
//
//	tempomat-proxy [-config FILE]          run
//	tempomat-proxy -replace [-config FILE] run in place of the process that runs
//	tempomat-proxy -check [-v] [-config FILE]
//	                                       read the configuration and say what it means
//	tempomat-proxy -demo                   run before a backend of its own
//	tempomat-proxy -demo-attack            show what the gate does against a crawler
//	tempomat-proxy -version
//	tempomat-proxy help                    print all options and commands
//
// A first argument without a dash is a command; commands() in command.go has them all.
// SIGHUP reads the configuration again, SIGUSR2 has a new process take this one's place
// (-replace), SIGTERM and SIGINT finish what is under way; with SIGINT systemd keeps no
// socket over that.
// The exit status is 0 after a signal or a sound configuration, 1 after a
// failure, 2 for a wrong command line.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the build.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop) // a second signal does not wait for the drain
	status := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}
