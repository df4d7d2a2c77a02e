package main

import (
	"net/http"
	"strings"
	"testing"
)

// TestBackendDown: without a backend the proxy says so, shortly, and goes on.
func TestBackendDown(t *testing.T) {
	backend := startApache(t)
	s := startProxy(t, backend.url, "")
	if a := s.get("203.0.113.1", "/page.php?ms=1"); a.StatusCode != http.StatusOK {
		t.Fatalf("before: %s", a.Status)
	}
	backend.kill()
	from := s.stderr.len()
	a := s.get("203.0.113.1", "/page.php?ms=1")
	if a.StatusCode != http.StatusBadGateway || len(a.body) > 300 ||
		!strings.Contains(a.body, "The site does not answer") || a.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("without a backend: %s %v\n%s", a.Status, a.Header, a.body)
	}
	s.stderr.await(t, from, `"level":"error"`, `"msg":"backend down"`, `"path":"/page.php"`)

	_ = startApacheAt(t, backend.port)
	if a := s.get("203.0.113.1", "/page.php?ms=1"); a.StatusCode != http.StatusOK {
		t.Errorf("the backend is back: %s", a.Status)
	}
	if n := s.stderr.count(from, `"msg":"backend down"`); n != 1 {
		t.Errorf("one failure is logged %d times:\n%s", n, s.stderr)
	}
	if n := s.stats().Counters["backendDown"]; n != 1 {
		t.Errorf("%d failures are counted, want 1", n)
	}
}

// TestBackendSlow: a backend that does not answer in time is given up.
func TestBackendSlow(t *testing.T) {
	backend := startApache(t)
	s := startProxyWith(t, []string{"TEMPOMAT_BACKEND_TIMEOUT=100ms"}, nil, backend.url, "")
	a := s.get("203.0.113.1", "/sleep.php?ms=60000")
	if a.StatusCode != http.StatusGatewayTimeout || len(a.body) > 300 || !strings.Contains(a.body, "takes too long") {
		t.Errorf("%s\n%s", a.Status, a.body)
	}
	s.stderr.await(t, 0, `"level":"error"`, `"msg":"backend slow"`)
}
