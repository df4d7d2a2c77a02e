// Command tempomat-master tells gatekeepers who has to wait: tempomat-proxy
// sidecars, and the Node and nginx gatekeepers of Smockron.
//
// Usage:
//
//	tempomat-master [-config FILE]          run
//	tempomat-master -check [-config FILE]   read the configuration and say what it means
//	tempomat-master -version
//
// The configuration is ours or the first Smockron master's. SIGHUP reads it again,
// SIGTERM and SIGINT end it, when the store has what is known. The exit status is 0
// after a signal or a sound configuration, 1 after a failure, 2 for a wrong command
// line.
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
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}
