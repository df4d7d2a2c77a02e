package main

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"tempomat/internal/testkit"
)

// TestDrain: requests in progress at SIGTERM are finished, even those that wait.
func TestDrain(t *testing.T) {
	t.Parallel()
	backend := startApache(t)
	for _, mode := range []string{"cap", "cooperative"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := startProxy(t, backend.url, "throttle: {mode: "+mode+`, maxHold: 1m}
cost: {source: wall}
cpuCount: 1
classes: {slash32: {share: 1, burst: 0s}, slash24: off, slash16: off, userAgent: off}
`)
			// One request runs. Another client's two requests cost a second each, so the second of these waits
			// for the first, or is held for it.
			running := s.later(from("198.51.100.1"), "/sleep.php?ms=1500")
			one := s.later(from("198.51.100.2"), "/sleep.php?ms=1000")
			testkit.Eventually(t, "two running requests", func() bool {
				a, _ := s.account("slash32", "198.51.100.1")
				b, _ := s.account("slash32", "198.51.100.2")
				return a.Running == 1 && b.Running == 1
			})
			two := s.later(from("198.51.100.2"), "/sleep.php?ms=1000")
			testkit.Eventually(t, "one that is held", func() bool { return s.stats().Held == 1 })
			s.Signal(syscall.SIGTERM)
			s.Stderr.Await(t, 0, `"msg":"draining"`)
			testkit.Eventually(t, "a refused connection", func() bool {
				c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
				if err == nil {
					_ = c.Close()
				}
				return err != nil
			})
			for name, got := range map[string]<-chan string{"running": running, "first": one, "second": two} {
				testkit.Same(t, "200 OK", <-got, "%s", name)
			}
			s.Exits(0)
			if s.Stderr.Count(0, "aborted requests that did not finish in time") > 0 {
				t.Errorf("something was cut:\n%s", s.Stderr)
			}
			if _, err := os.Stat(s.admin); err == nil {
				t.Error("the admin socket is left behind")
			}
		})
	}
}
