package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"tempomat/internal/testkit"
)

// workers returns the process IDs of Apache's workers.
func (a *apache) workers() (pids []int) {
	a.t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	testkit.Must(a.t, err)
	parent := strconv.Itoa(a.Proc.Pid)
	for _, name := range names {
		text, _ := os.ReadFile(name) // the process may have ended
		_, rest, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == parent {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// lowered returns the number of Apache's workers whose priority differs from that of the test.
func (a *apache) lowered() (n int) {
	a.t.Helper()
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // the tests, and with them Apache, may run with a lower priority
	testkit.Must(a.t, err)
	for _, pid := range a.workers() {
		policy, _, errno := unix.Syscall(unix.SYS_SCHED_GETSCHEDULER, uintptr(pid), 0, 0)
		nice, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
		if errno == 0 && err == nil && (policy != unix.SCHED_NORMAL || nice != own) {
			n++
		}
	}
	return n
}

// attack requests some long pages, and waits until the priorities of their workers are lowered.
func (a *apache) attack(t *testing.T, s *sidecarProcess) (pages []<-chan string) {
	t.Helper()
	for _, client := range []string{"198.51.100.7", "198.51.101.7"} {
		pages = append(pages, s.later(from(client), "/page.php?ms=900"))
	}
	testkit.Eventually(t, "workers step down", func() bool { return a.lowered() > 0 })
	return pages
}

// TestPriorities: the priorities of a real Apache's workers are lowered, and then the proxy is reloaded or ended. Each
// time, the workers have their own priority afterwards.
func TestPriorities(t *testing.T) {
	testkit.Root(t, "to raise priorities again takes CAP_SYS_NICE")
	backend := startApache(t, "--workers", "6")
	const yaml = "trustedProxies: [127.0.0.1/32]\ngate: {priority: on}\n"
	s := startProxy(t, backend.url, yaml)
	s.Stderr.Await(t, 0, "processes of long requests get a lower priority")
	for _, page := range backend.attack(t, s) {
		testkit.Same(t, "200 OK", <-page, "a long page")
	}
	if n := backend.lowered(); n > 0 {
		t.Errorf("%d workers are lowered after their answers", n)
	}

	backend.attack(t, s)
	for range 20 {
		s.reload(reloaded)
	}
	s.Signal(syscall.SIGTERM)
	if status := s.Exit(); status != 0 || backend.lowered() > 0 {
		t.Errorf("reloaded again and again: status %d, %d lowered", status, backend.lowered())
	}
}

// TestNoPriorities: if priorities can't be lowered, one log line says what is missing, and the site is served.
func TestNoPriorities(t *testing.T) {
	t.Parallel()
	backend := startApache(t, "--workers", "4")
	for name, c := range map[string]struct{ url, yaml, why string }{
		"elsewhere": {"http://192.0.2.1", "", "the backend is on another machine"},
		"estimate":  {backend.url, "cost: {source: corrected}\n", "cost.source"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startProxy(t, c.url, c.yaml)
			s.reload(reloaded)
			if log := s.Stderr.String(); strings.Count(log, "process priorities aren't lowered") != 1 || !strings.Contains(log, c.why) {
				t.Errorf("want one line that tells of %q:\n%s", c.why, log)
			}
		})
	}
	s := startProxy(t, backend.url, "gate: {priority: off}\n")
	if got := s.get("198.51.100.7", "/page.php?ms=5").StatusCode; got != 200 || strings.Contains(s.Stderr.String(), "lower") {
		t.Errorf("status %d, log:\n%s", got, s.Stderr)
	}
}
