package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"

	"go.uber.org/zap"
)

// succeed starts a process that replaces this one, from the file that this one was started
// from: a package may have put a newer program there. A service manager takes it for the
// service, as it is a child, in the same control group and with the same restrictions. If
// it cannot start, this process goes on.
func (s *sidecar) succeed() {
	program, err := os.Executable()
	if err != nil {
		s.logs.log.Error("is not replaced", zap.Error(err))
		return
	}
	next := exec.Command(program, successorArgs(os.Args[1:])...) //nolint:gosec // the program itself
	next.Env = successorEnv(os.Environ())
	next.Stdout, next.Stderr = os.Stdout, os.Stderr
	if err := next.Start(); err != nil {
		s.logs.log.Error("is not replaced", zap.Error(err))
		return
	}
	s.logs.log.Info("has started a process that replaces this one", zap.String("program", program), zap.Int("pid", next.Process.Pid))
	go func() { // it usually outlives this one
		if err := next.Wait(); err != nil {
			s.logs.log.Error("the process that was to replace this one has ended", zap.Int("pid", next.Process.Pid), zap.Error(err))
		}
	}()
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
