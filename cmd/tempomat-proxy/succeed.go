package main

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"

	"go.uber.org/zap"

	"tempomat/cmd/internal/daemon"
)

// startCommand is the program's own, for what is between a process and the one that
// replaces it: "tempomat-proxy start-successor ARGUMENT..." starts the program and ends.
const startCommand = "start-successor"

// succeed starts a process that replaces this one, from the file that this one was started
// from: a package may have put a newer program there. A service manager takes it for the
// service, as it is in the same control group and under the same restrictions; and notices
// when it ends, as it is nobody else's child: what starts it has ended before. If it
// cannot start, this process goes on.
func (s *sidecar) succeed() {
	program, err := os.Executable()
	if err != nil {
		s.logs.log.Error("is not replaced", zap.Error(err))
		return
	}
	start := exec.Command(program, append([]string{startCommand}, successorArgs(os.Args[1:])...)...) //nolint:gosec // the program itself
	start.Env = successorEnv(os.Environ())
	start.Stdout, start.Stderr = os.Stdout, os.Stderr
	s.logs.log.Info("starts a process that replaces this one", zap.String("program", program))
	if err := start.Run(); err != nil {
		s.logs.log.Error("is not replaced", zap.Error(err))
	}
}

// startSuccessor starts this program with other arguments, and does not wait for it.
func startSuccessor(_ context.Context, in invocation, args []string) int {
	program, err := os.Executable()
	if err != nil {
		return daemon.Status(err, in.stderr)
	}
	next := exec.Command(program, args...)          //nolint:gosec // the program itself
	next.Stdout, next.Stderr = os.Stdout, os.Stderr // themselves: nobody stays to copy
	return daemon.Status(next.Start(), in.stderr)
}

func successorArgs(args []string) []string {
	if slices.ContainsFunc(args, func(a string) bool { return strings.TrimLeft(a, "-") == "replace" }) {
		return args
	}
	return append([]string{"-replace"}, args...)
}

// successorEnv is an environment without what is said of this very process: the watchdog
// is to listen to the next one, too.
func successorEnv(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, "WATCHDOG_PID=") })
}
