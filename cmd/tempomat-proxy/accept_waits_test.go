//go:build accept

package main

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// onePerSecond gives each address one CPU-second per second, as the examples of
// the original do.
const onePerSecond = `cost: {source: wall}
cpuCount: 1
classes: {slash32: {share: 1, burst: 0s}, slash24: off, slash16: off, userAgent: off}
`

// TestAcceptWaits is the original's table: requests of one second, limited to
// 1 CPU-s/s.
func TestAcceptWaits(t *testing.T) {
	sayLoad(t)
	backend := startApache(t, "--workers", "40")
	const warm, lasting = 10 * time.Second, 75 * time.Second
	c := newCrowd(t, lasting)
	modes := []string{"cap", "cooperative"}
	for _, mode := range modes {
		s := startProxy(t, backend.url, onePerSecond+"throttle: {mode: "+mode+"}\n")
		for parallel := 1; parallel <= 3; parallel++ {
			c.ask(fmt.Sprint(mode, parallel), parallel, fmt.Sprintf("198.51.100.%d", parallel), s.url+"/sleep.php?ms=1000")
		}
	}
	start := time.Now().Add(warm)
	c.wait()
	f := newFigures("mode", "parallelism", "requests", "wait [s]", "wanted", "requests/s", "wanted")
	for _, mode := range modes {
		for parallel := 1; parallel <= 3; parallel++ {
			n, rate, took := c.since(fmt.Sprint(mode, parallel), start)
			wait, want := took.Seconds()-1, float64(parallel-1)
			f.row("%s | %d | %d | %.3f | %.0f | %.3f | 1", mode, parallel, n, wait, want, rate)
			if math.Abs(wait-want) > 0.05*max(1, want) || !within(rate, 1, 0.05) {
				t.Errorf("%s, %d in parallel: wait %.3f s, want %.0f; %.3f requests/s, want 1", mode, parallel, wait, want, rate)
			}
		}
	}
	t.Log(f)
}

// TestAcceptUnderLoad is the original's example of a full machine: one CPU, one
// client with two requests in parallel and one with one, pages of one second.
func TestAcceptUnderLoad(t *testing.T) {
	sayLoad(t)
	const a, b = "198.51.100.1", "203.0.113.1"
	f := newFigures("", "client", "pages", "CPU [s]", "share", "wanted")
	stayOn(t, "1")
	backend := startApache(t, "--cpu", "0")
	s := startProxyWith(t, nil, []string{"taskset", "-c", "1"}, backend.url, onePerSecond+"throttle: {mode: cooperative}\n")
	split := func(name, url string, warm, measured time.Duration, want float64) {
		c := newCrowd(t, warm+measured)
		start := time.Now().Add(warm)
		c.ask("A", 2, a, url+"/page.php?ms=1000")
		c.ask("B", 1, b, url+"/page.php?ms=1000")
		c.wait()
		from, to := float64(start.UnixMicro())/1e6, float64(start.Add(measured).UnixMicro())/1e6
		nA, cpuA := backend.cpu(a, from, to)
		nB, cpuB := backend.cpu(b, from, to)
		share := 100 * cpuA.Seconds() / (cpuA + cpuB).Seconds()
		f.row("%s | A, 2 at once | %d | %.1f | %.1f %% | %.1f %%", name, nA, cpuA.Seconds(), share, want)
		f.row(" | B, 1 at once | %d | %.1f | %.1f %% | %.1f %%", nB, cpuB.Seconds(), 100-share, 100-want)
		_, rateA, tookA := c.since("A", start)
		_, rateB, tookB := c.since("B", start)
		t.Logf("%s: A %.3f pages/s in %.2f s each, B %.3f in %.2f s", name, rateA, tookA.Seconds(), rateB, tookB.Seconds())
		if math.Abs(share-want) > 3 {
			t.Errorf("%s: A has %.1f %% of the CPU, want %.1f", name, share, want)
		}
	}
	split("without the proxy", backend.url, 5*time.Second, time.Minute, 100*2./3)
	split("with the proxy", s.url, 20*time.Second, 100*time.Second, 50)
	t.Log(f)
}
