package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// startThree starts three sidecars before one backend, with the same configuration.
func startThree(t *testing.T, backend, yaml string) (cars [3]*sidecarProcess) {
	t.Helper()
	for i := range cars {
		cars[i] = startProxy(t, backend, yaml)
	}
	return cars
}

// slowPages is a backend whose pages take 20 ms.
type slowPages struct {
	*httptest.Server
	took atomic.Int64 // all pages so far
}

func startSlowPages(t *testing.T) *slowPages {
	s := &slowPages{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		began := time.Now()
		time.Sleep(20 * time.Millisecond)
		s.took.Add(int64(time.Since(began)))
	}))
	t.Cleanup(s.Close)
	return s
}

// What the fleet allows a client.
const (
	fleetRate  = 0.1 // CPU-seconds per second
	fleetBurst = 0.5 // CPU-seconds
	oneLimit   = `
cost: {source: wall}
cpuCount: 1
classes: {slash32: {share: 0.1, burst: 500ms}, slash24: off, slash16: off, userAgent: off}
throttle: {mode: cap, maxHold: 1m}
`
)

// TestRedisFleet spreads a client over three sidecars that share through one Redis:
// it gets what one of them allows. Then Redis stands still, dies, and comes back.
func TestRedisFleet(t *testing.T) {
	t.Parallel()
	r := testkit.StartRedis(t)
	backend := startSlowPages(t)
	cars := startThree(t, backend.URL, oneLimit+
		fmt.Sprintf("coordination: {kind: redis, redis: {addresses: [%q]}}\n", "redis://"+r.Address+"?timeout=10s"))
	shared := func(s *sidecarProcess, want string) func() bool {
		return func() bool {
			_, out, _ := s.doctor("status")
			return strings.Contains(out, "sharing") && strings.Contains(out, "redis") && strings.Contains(strings.Join(strings.Fields(out), " "), want)
		}
	}
	for _, s := range cars {
		testkit.Eventually(t, "the doctor shows that Redis is there", shared(s, "connected true"))
	}
	known(t, cars, "198.51.100.1")

	before := backend.took.Load()
	lasted := spread(t, cars, "198.51.100.2", 6*time.Second)
	spent := time.Duration(backend.took.Load() - before).Seconds()
	allowed := fleetBurst + fleetRate*lasted.Seconds()
	t.Logf("one client at three sidecars: %.2f CPU-s of %.2f that one allows, and %.2f that three would", spent, allowed, 3*allowed)
	if spent < fleetBurst || spent > 1.8*allowed {
		t.Errorf("it got %.2f CPU-s, want those of one sidecar", spent)
	}

	r.Pause()
	serveAll(t, cars, "198.51.100.3")
	for i, s := range cars {
		if _, out, _ := s.doctor("status"); !strings.Contains(strings.Join(strings.Fields(out), " "), "failures 0") {
			t.Errorf("sidecar %d: before its answers a call to Redis had timed out, or they waited for that:\n%s", i, out)
		}
	}
	r.Kill()
	for _, s := range cars {
		s.stderr.await(t, 0, "not to be reached")
		testkit.Eventually(t, "the doctor shows that Redis is away", shared(s, "connected false"))
	}
	serveAll(t, cars, "198.51.100.4")
	r.Start()
	known(t, cars, "198.51.100.5")
	for i, s := range cars {
		if row, ok := s.account("slash32", "198.51.100.4"); !ok || row.Level < fleetBurst-1 {
			t.Errorf("sidecar %d: who asked for one page at each owes %v", i, -row.Level)
		}
	}
}

// known has a client spend at the first sidecar until all others know that it owes.
func known(t *testing.T, cars [3]*sidecarProcess, client string) {
	t.Helper()
	// The pages of a client who owes wait at that sidecar: they are not waited for.
	for range 40 {
		_ = cars[0].later(from(client), "/")
	}
	for i, s := range cars[1:] {
		testkit.Eventually(t, fmt.Sprintf("sidecar %d knows what a client owes at the first one", i+1), func() bool {
			row, ok := s.account("slash32", client)
			return ok && row.Level < 0
		})
	}
}

// spread has a client ask all sidecars for pages all the time, and tells for how long.
func spread(t *testing.T, cars [3]*sidecarProcess, client string, lasting time.Duration) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lasting)
	defer cancel()
	began := time.Now()
	var clients sync.WaitGroup
	for _, s := range cars {
		h := newClient(t)
		for range 2 {
			clients.Go(func() {
				for ctx.Err() == nil {
					req, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/", nil)
					req.Header = from(client)
					if res, err := h.Do(req); err == nil {
						_, _ = io.Copy(io.Discard, res.Body)
						_ = res.Body.Close()
					}
				}
			})
		}
	}
	clients.Wait()
	return time.Since(began)
}

// serveAll has each sidecar serve one page to a client who owes nothing.
func serveAll(t *testing.T, cars [3]*sidecarProcess, client string) {
	t.Helper()
	for i, s := range cars {
		if a := s.get(client, "/"); a.StatusCode != http.StatusOK {
			t.Errorf("sidecar %d answers %s", i, a.Status)
		}
	}
}
