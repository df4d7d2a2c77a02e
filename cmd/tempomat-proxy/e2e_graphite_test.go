package main

import (
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// graphite is a listener that takes samples in the plaintext protocol.
type graphite struct {
	net.Listener
	samples chan map[string]float64 // of each connection; the series without their prefix
}

func startGraphite(t *testing.T, prefix string) *graphite {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &graphite{Listener: l, samples: make(chan map[string]float64, 100)}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			text, err := io.ReadAll(c)
			_ = c.Close()
			if err != nil {
				t.Errorf("graphite: %v", err)
			}
			g.samples <- parseSample(t, string(text), prefix)
		}
	}()
	return g
}

func parseSample(t *testing.T, text, prefix string) map[string]float64 {
	sample := make(map[string]float64)
	for line := range strings.Lines(text) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		if len(parts) != 3 || !strings.HasPrefix(parts[0], prefix) {
			t.Errorf("graphite: %q", line)
			continue
		}
		value, e1 := strconv.ParseFloat(parts[1], 64)
		if _, e2 := strconv.ParseInt(parts[2], 10, 64); e1 != nil || e2 != nil {
			t.Errorf("graphite: %q", line)
		}
		sample[strings.TrimPrefix(parts[0], prefix)] = value
	}
	return sample
}

// await returns the first sample that holds.
func (g *graphite) await(t *testing.T, holds func(map[string]float64) bool) map[string]float64 {
	t.Helper()
	var latest map[string]float64
	for limit := time.After(testkit.Patience); ; {
		select {
		case latest = <-g.samples:
			if holds(latest) {
				return latest
			}
		case <-limit:
			t.Fatalf("the latest sample is %v", latest)
		}
	}
}

// TestGraphite: the original's series and the totals arrive, in the least
// interval that there is.
func TestGraphite(t *testing.T) {
	t.Parallel()
	hostname, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	g := startGraphite(t, "sites."+hostname+".")
	backend := startApache(t)
	s := startProxy(t, backend.url, `cpuCount: 1
throttle: {mode: cap, maxHold: 1s}
classes: {slash32: {share: 0.000001, burst: 0s}}
graphite: {address: "`+g.Addr().String()+`", interval: 1s}
`)
	for range 3 { // one that runs, two that are refused and so wait too long
		s.get("198.51.100.1", "/page.php?ms=20")
	}
	s.get("198.51.100.2", "/style.css")
	got := g.await(t, func(sample map[string]float64) bool { return sample["requests"] == 4 })
	for series, want := range map[string]float64{
		"Slash32": 1, "Slash24": 0, "Slash16": 0, "UserAgent": 0,
		"requests": 4, "refused": 2, "delayed": 0, "backendDown": 0, "clientGone": 0,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s is %v (sent: %v), want %v", series, v, ok, want)
		}
	}
	if got["costSeconds"] < 0.01 { // a busy machine gives a page less than it wants
		t.Errorf("costSeconds is %v", got["costSeconds"])
	}
}
