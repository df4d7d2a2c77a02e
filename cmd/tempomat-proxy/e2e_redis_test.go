package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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

// head asks for a page and returns the head of the answer, as it is on the wire.
func (s *sidecarProcess) head(client, path string) string {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: test\r\nX-Forwarded-For: %s\r\nConnection: close\r\n\r\n", path, client)
	text, err := io.ReadAll(c)
	if err != nil {
		s.t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(text), "\r\n\r\n")
	return head + "\r\n"
}

// TestStrictFields asks three sidecars in turn, which count together, and looks at
// what they write; the backend's own fields go through.
func TestStrictFields(t *testing.T) {
	t.Parallel()
	r := testkit.StartRedis(t)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/own") {
			w.Header().Set("X-RateLimit-Remaining", "42 of the backend")
			w.Header().Set("X-RateLimit-Limit", "100")
			w.Header().Set("RateLimit", `"backend";r=42`)
		}
	}))
	t.Cleanup(backend.Close)
	yaml := fmt.Sprintf(`
limits: [{name: api, path: /api/*, rate: 1/hour, burst: 3, strict: true}]
coordination: {redis: {addresses: [%q]}}
`, "redis://"+r.Address+"?timeout=10s")
	cars := startThree(t, backend.URL, "headers: ratelimit\n"+yaml)
	check := func(client string, want [][]string, foreign string) {
		t.Helper()
		for i, lines := range want {
			head := cars[i%3].head(client, "/api/list")
			for _, line := range lines {
				if !strings.Contains(head, line+"\r\n") {
					t.Errorf("request %d: no line %q in\n%s", i, line, head)
				}
			}
			if strings.Contains(head, foreign) {
				t.Errorf("request %d: a line with %q in\n%s", i, foreign, head)
			}
			if blocked := i == len(want)-1; strings.Contains(head, "Retry-After: ") != blocked || strings.Contains(head, "X-RateLimit-Reset: ") != (blocked && foreign == "RateLimit-Policy") {
				t.Errorf("request %d: Retry-After or X-RateLimit-Reset:\n%s", i, head)
			}
		}
		head := strings.ToLower(cars[0].head(client+"0", "/api/own"))
		for _, line := range []string{"x-ratelimit-remaining: 42 of the backend", "x-ratelimit-limit: 100", `ratelimit: "backend";r=42`} {
			if strings.Count(head, "\r\n"+line+"\r\n") != 1 || strings.Contains(head, "x-ratelimit-clear") || strings.Contains(head, "ratelimit-policy") {
				t.Errorf("the backend's own %q did not go through alone:\n%s", line, head)
			}
		}
	}
	check("198.51.100.1", [][]string{
		{"HTTP/1.1 200 OK", "X-RateLimit-Remaining: 2", "X-RateLimit-Clear: 3600.000"},
		{"HTTP/1.1 200 OK", "X-RateLimit-Remaining: 1", "X-RateLimit-Clear: 7200.000"},
		{"HTTP/1.1 200 OK", "X-RateLimit-Remaining: 0", "X-RateLimit-Clear: 10800.000"},
		{"HTTP/1.1 429 Too Many Requests", "X-RateLimit-Remaining: 0", "X-RateLimit-Clear: 10800.000"},
	}, "RateLimit-Policy")
	for _, s := range cars {
		s.configure(t, backend.URL, "headers: draft\n"+yaml)
		s.signal(syscall.SIGHUP)
		s.stderr.await(t, 0, reloaded)
	}
	policy := `RateLimit-Policy: "api";q=3;qu="requests";w=10800`
	check("198.51.100.2", [][]string{
		{"HTTP/1.1 200 OK", policy, `RateLimit: "api";r=2;t=3600`},
		{"HTTP/1.1 200 OK", policy, `RateLimit: "api";r=1;t=7200`},
		{"HTTP/1.1 200 OK", policy, `RateLimit: "api";r=0;t=10800`},
		{"HTTP/1.1 429 Too Many Requests", policy, `RateLimit: "api";r=0;t=10800`},
	}, "X-RateLimit-")
}
