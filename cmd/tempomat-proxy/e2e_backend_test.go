package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// TestBackendDown: without a backend the proxy says so, shortly, and goes on.
func TestBackendDown(t *testing.T) {
	t.Parallel()
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

// TestBackendDiesBusy: a backend ends under load and is back. Nothing at the gate
// stays taken, and nobody owes less than before.
func TestBackendDiesBusy(t *testing.T) {
	t.Parallel()
	backend := startApache(t)
	s := startProxy(t, backend.url, slowly)
	gate := func() (g limiter.GateState) {
		s.ask("/v1/gate", &g)
		return g
	}
	client := func(i int) string { return fmt.Sprintf("203.0.113.%d", 1+i%10) }
	var before [10]float64
	for i := range before {
		s.get(client(i), "/page.php?ms=20")
		row, _ := s.account("slash32", client(i))
		before[i] = row.Level
	}
	var answers []<-chan string
	for i := range 60 {
		answers = append(answers, s.later(from(client(i)), "/page.php?ms=300"))
	}
	testkit.Eventually(t, "some run, some wait", func() bool {
		g := gate()
		return g.Busy > 0 && g.Queued > 0
	})
	backend.kill()
	for _, a := range answers {
		if got := <-a; got != "200 OK" && got != "502 Bad Gateway" {
			t.Errorf("answered %s", got)
		}
	}
	testkit.Eventually(t, "all slots and queues are empty", func() bool {
		g := gate()
		return g.Busy+computing(g)+g.Probes+g.LongBusy+g.Queued == 0
	})
	for i := range before {
		if row, _ := s.account("slash32", client(i)); row.Level > before[i]+1e-3 || row.Running+row.Waiting != 0 {
			t.Errorf("%s had %.4f CPU-s, has %+v", client(i), before[i], row)
		}
	}
	_ = startApacheAt(t, backend.port)
	for i := range before {
		if a := s.get(client(i), "/page.php?ms=1"); a.StatusCode != http.StatusOK {
			t.Errorf("the backend is back: %s", a.Status)
		}
	}
}

// TestBackendBusy: more come at once than Apache has workers, and TLS's handshake with it waits for one. Nobody gets an
// error for that, as nobody does without the proxy.
func TestBackendBusy(t *testing.T) {
	t.Parallel()
	certificate, key := testkit.NewAuthority(t).Issue(t, time.Now().Add(time.Hour), "localhost")
	both := filepath.Join(tempDir(t), "both.pem")
	writeFile(t, both, string(certificate)+string(key))
	backend := startApache(t, "--workers", "4", "--tls", both)
	for _, mode := range []string{"observe", "fair"} {
		s := startProxy(t, "https://127.0.0.1:"+backend.port, "throttle: {mode: "+mode+"}\n")
		var answers []<-chan string
		for i := range 10 {
			answers = append(answers, s.later(from(fmt.Sprintf("203.0.113.%d", i)), "/sleep.php?ms=100"))
		}
		for _, a := range answers {
			if got := <-a; got != "200 OK" {
				t.Errorf("%s: %s", mode, got)
			}
		}
	}
}

// TestBackendSlow: a backend that does not answer in time is given up.
func TestBackendSlow(t *testing.T) {
	t.Parallel()
	backend := startApache(t)
	s := startProxyWith(t, []string{"TEMPOMAT_BACKEND_TIMEOUT=100ms"}, nil, backend.url, "")
	a := s.get("203.0.113.1", "/sleep.php?ms=60000")
	if a.StatusCode != http.StatusGatewayTimeout || len(a.body) > 300 || !strings.Contains(a.body, "takes too long") {
		t.Errorf("%s\n%s", a.Status, a.body)
	}
	s.stderr.await(t, 0, `"level":"error"`, `"msg":"backend slow"`)
}

// computing is how many requests compute, of all sizes.
func computing(g limiter.GateState) (n int) {
	for _, x := range g.Computing {
		n += x
	}
	return n
}
