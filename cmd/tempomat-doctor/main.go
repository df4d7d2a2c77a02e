// Tempomat-doctor shows what tempomat-proxy knows of its clients: who waits,
// who uses the CPUs, who owes. It is the client of the proxy's admin API, and of
// tempomat-master's.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal does not wait for what is read from a pipe
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr, os.Environ())
	stop()
	os.Exit(code)
}
