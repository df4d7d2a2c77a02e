package testkit

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Process is a running program, which ends with the test.
type Process struct {
	Proc           *os.Process
	Stdout, Stderr *Output
	Ended          chan struct{} // closed when Status is known
	Status         int           // the exit status; -1: a signal ended the process

	t        testing.TB
	path     string
	said     chan struct{} // closed when all processes that write the output have ended
	followed chan struct{} // closed when another process also writes the output
}

// Start starts a program with the variables of env in addition to Environment.
func Start(t testing.TB, env []string, path string, args ...string) *Process {
	t.Helper()
	return StartWith(t, nil, env, path, args...)
}

// StartWith does what Start does, and also passes open files to the program, from descriptor 3 on.
func StartWith(t testing.TB, files []*os.File, env []string, path string, args ...string) *Process {
	t.Helper()
	p := &Process{t: t, path: path, Stdout: new(Output), Stderr: new(Output), said: make(chan struct{})}
	c := exec.Command(path, args...) //nolint:gosec,noctx // ended by its Cleanup
	c.ExtraFiles, c.Env = files, append(Environment(), env...)
	stdout, stderr := pipe(t, p.Stdout, nil), pipe(t, p.Stderr, p.said)
	c.Stdout, c.Stderr = stdout, stderr
	err := c.Start()
	_, _ = stdout.Close(), stderr.Close()
	Must(t, err)
	p.Proc = c.Process
	p.awaitEnd()
	return p
}

// pipe returns the end of a pipe to which programs write. It closes said when the last of them has ended.
func pipe(t testing.TB, to *Output, said chan<- struct{}) *os.File {
	t.Helper()
	read, write, err := os.Pipe()
	Must(t, err)
	go func() {
		_, _ = io.Copy(to, read)
		_ = read.Close()
		to.Close()
		if said != nil {
			close(said)
		}
	}()
	return write
}

// awaitEnd closes Ended when the process has ended, and either all its output has arrived or another process
// continues to write to the output.
func (p *Process) awaitEnd() {
	p.followed, p.Ended = make(chan struct{}), make(chan struct{})
	go func() {
		p.Status = -1
		if state, err := p.Proc.Wait(); err == nil {
			p.Status = state.ExitCode()
		}
		select {
		case <-p.said:
		case <-p.followed:
		}
		close(p.Ended)
	}()
	p.t.Cleanup(p.Kill)
}

// Successor returns the process with a PID, which replaces this process and writes to the same output.
func (p *Process) Successor(pid int) *Process {
	p.t.Helper()
	proc, err := os.FindProcess(pid)
	Must(p.t, err)
	next := *p
	next.Proc = proc
	close(p.followed)
	next.awaitEnd()
	return &next
}

// Environment returns the test's environment without the variables that configure this module's programs. With
// it, programs don't fetch the lists of robots from the internet.
func Environment() (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TEMPOMAT_") && !strings.HasPrefix(v, "NOTIFY_SOCKET=") {
			env = append(env, v)
		}
	}
	return append(env, "TEMPOMAT_ROBOTS_REFRESH=off")
}

// Kill ends the process with SIGTERM. The test fails if SIGTERM isn't enough, if the program has panicked, or
// if the race detector has found a data race.
func (p *Process) Kill() {
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.Ended:
	case <-time.After(Patience):
		_ = p.Proc.Kill()
		<-p.Ended
		p.t.Errorf("%s had to be killed; its log:\n%s", p.path, p.Stderr)
	}
	if log := p.Stderr.String(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic") {
		p.t.Errorf("%s had a data race or a panic:\n%s", p.path, log)
	}
}

// Signal sends a signal to the process. It has no effect on a process that has ended.
func (p *Process) Signal(s os.Signal) {
	if err := p.Proc.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("%v to %s: %v", s, p.path, err)
	}
}

// Exit waits for the end and returns the exit status.
func (p *Process) Exit() int {
	p.t.Helper()
	select {
	case <-p.Ended:
	case <-time.After(Patience):
		p.t.Fatalf("%s didn't end; its log:\n%s", p.path, p.Stderr)
	}
	return p.Status
}

// Exits waits for the end. The test fails if the exit status isn't the given one.
func (p *Process) Exits(want int) {
	p.t.Helper()
	if status := p.Exit(); status != want {
		p.t.Errorf("%s: exit status %d, want %d:\n%s", p.path, status, want, p.Stderr)
	}
}

// Listens waits until the process listens on an address.
func (p *Process) Listens(address string) {
	p.t.Helper()
	Eventually(p.t, p.path+" listens", func() bool {
		select {
		case <-p.Ended:
			p.t.Fatalf("%s ended with status %d:\n%s%s", p.path, p.Status, p.Stdout, p.Stderr)
		default:
		}
		c, err := net.DialTimeout("tcp", address, time.Second)
		return err == nil && c.Close() == nil
	})
}

// Execute runs a program to its end.
func Execute(t testing.TB, env []string, path string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	c := exec.Command(path, args...) //nolint:gosec,noctx // a test's own
	c.Stdout, c.Stderr, c.Env = &out, &errs, append(Environment(), env...)
	var ended *exec.ExitError
	if err := c.Run(); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), out.String(), errs.String()
}
