package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tempomat/cmd/internal/policy"
	"tempomat/config"
	"tempomat/internal/testkit"
)

// plain is a backend that answers at once.
func plain(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/own") {
			w.Header().Set("X-RateLimit-Remaining", "own")
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestLimits asks for more than limits in requests allow, in this sidecar's memory.
func TestLimits(t *testing.T) {
	s := startProxy(t, plain(t), `headers: ratelimit
limits:
  - {name: login, path: /login/*, rate: 1/hour, burst: 2}
  - {name: old, path: /old, max: 1, duration: 1h}
`)
	for i, want := range []string{"200 1", "200 0", "429 0", "429 0"} {
		a := s.get("198.51.100.1", "/login")
		if got := a.Status[:4] + a.Header.Get("X-RateLimit-Remaining"); got != want {
			t.Errorf("request %d: %q, want %q", i, got, want)
		}
		if a.StatusCode == 429 && (a.Header.Get("Retry-After") < "3500" || a.Header.Get("X-RateLimit-Reset") == "" ||
			!strings.Contains(a.body, "the limit login")) {
			t.Errorf("%v %s", a.Header, a.body)
		}
	}
	for path, want := range map[string]string{"/login/../x": "1", "/x/../loginx": "", "/loginx": "", "/own": "own", "/login/a/b": "0"} {
		client := map[bool]string{true: "198.51.100.1", false: "198.51.100.2"}[want == "0"]
		if a := s.get(client, path); a.Header.Get("X-RateLimit-Remaining") != want || (a.StatusCode == 429) != (want == "0") {
			t.Errorf("%s: %s, %v", path, a.Status, a.Header)
		}
	}
	if first, second := s.get("198.51.100.9", "/old"), s.get("198.51.100.9", "/old"); first.StatusCode != 200 || second.StatusCode != 429 {
		t.Errorf("the older form: %s, %s", first.Status, second.Status)
	}
}

// TestStrictLimits asks two sidecars, which count together in Redis, then kills it.
func TestStrictLimits(t *testing.T) {
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

// TestCreditFields: a client is told its account in CPU time, beside the limits in
// requests.
func TestCreditFields(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(20 * time.Millisecond) }))
	t.Cleanup(backend.Close)
	s := startProxy(t, backend.URL, `headers: draft-credit
cpuCount: 1
cost: {source: wall}
classes: {slash32: {share: 0.001, burst: 10s}}
limits: [{name: api, path: /api, rate: 1/hour, burst: 2}]
`)
	policy := `"slash32";q=10000;qu="cpu-milliseconds";w=10000`
	a := s.get("198.51.100.1", "/")
	if a.Header.Get("RateLimit-Policy") != policy || a.Header.Get("RateLimit") != `"slash32";r=10000;t=0` {
		t.Errorf("at first: %v", a.Header)
	}
	a = s.get("198.51.100.1", "/api")
	if a.Header.Get("RateLimit-Policy") != `"api";q=2;qu="requests";w=7200, `+policy {
		t.Errorf("beside a limit: %v", a.Header)
	}
	var left, back int
	if _, err := fmt.Sscanf(a.Header.Get("RateLimit"), `"api";r=1;t=3600, "slash32";r=%d;t=%d`, &left, &back); err != nil || left > 9980 || back < 20 {
		t.Errorf("%v after a page of 20 ms: %v", a.Header, err)
	}
}

// TestSessionsAreNotShared: all other classes are.
func TestSessionsAreNotShared(t *testing.T) {
	p := policy.Limits(config.Default())
	if len(p.Classes) != 6 {
		t.Errorf("%v", p.Classes)
	}
	for _, c := range p.Classes {
		if c.Budget.LocalOnly != (c.Name == policy.SessionClass) {
			t.Errorf("%s is local only: %v", c.Name, c.Budget.LocalOnly)
		}
	}
}
