package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

// plain starts a backend that answers at once, and returns its URL.
func plain(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/own") {
			w.Header().Set("X-RateLimit-Remaining", "own")
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestStrictLimits sends requests to two sidecars that count together in Redis, and then kills Redis.
func TestStrictLimits(t *testing.T) {
	t.Parallel()
	r := testkit.StartRedis(t)
	yaml := `headers: draft
limits: [{name: login, path: /login, rate: 1/hour, burst: 2, strict: true}]
coordination: {redis: {addresses: ["redis://` + r.Address + `?timeout=5s"]}}
`
	backend := plain(t)
	cars := [2]*sidecarProcess{startProxy(t, backend, yaml), startProxy(t, backend, yaml)}
	for i, want := range []string{`"login";r=1;t=3600`, `"login";r=0;t=7200`, `"login";r=0;t=7200`} {
		a := cars[i%2].get("198.51.100.1", "/login")
		if got := a.Header.Get("RateLimit"); got != want || (a.StatusCode == 429) != (i == 2) || a.Header.Get("RateLimit-Policy") != `"login";q=2;qu="requests";w=7200` {
			t.Errorf("request %d: %s, %v; want %s", i, a.Status, a.Header, want)
		}
	}
	r.Kill()
	for range 3 {
		if a := cars[0].get("198.51.100.1", "/login"); a.StatusCode != 200 {
			t.Errorf("without Redis: %s", a.Status)
		}
	}
	if got := cars[0].stats().Counters; got["strictChecks"] != 2 || got["strictFailures"] == 0 {
		t.Errorf("%v", got)
	}
}
