package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"tempomat/cmd/internal/daemon"
	"tempomat/cmd/tempomat-proxy/internal/demo"
)

// The files that are looked for when none is named; the second is the original's.
const (
	usualFile    = "/etc/tempomat/tempomat.yaml"
	originalFile = "/etc/tempomat.json"
)

// run is the program. It returns the exit status.
func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		c, rest := findCommand(commands(), args)
		if c == nil {
			return unknownCommand(commands(), args, stderr)
		}
		return c.run(ctx, invocation{env: env, stdin: os.Stdin, stdout: stdout, stderr: stderr}, rest)
	}
	o, status, done := parseFlags(args, stderr)
	if done {
		return status
	}
	source := source{file: findFile(o.file), env: env}
	switch {
	case o.version:
		fmt.Fprintln(stdout, version)
		return 0
	case o.check:
		return daemon.Status(source.check(ctx, stdout, o.verbose), stderr)
	case o.attack:
		return daemon.Status(runDemoAttack(ctx, source, demo.Times{Settle: 6 * time.Second, Measure: 16 * time.Second}, stdout, stderr), stderr)
	case o.demo:
		return daemon.Status(runDemo(ctx, source, stdout, stderr), stderr)
	}
	kept := newKept()
	cfg, err := source.load()
	if err != nil {
		kept.giveUp()
		return daemon.Status(withNextStep(err), stderr)
	}
	return daemon.Status(serve(ctx, cfg, source, o.replace, kept, stderr), stderr)
}
