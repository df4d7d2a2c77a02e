package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"tempomat/internal/testkit"
)

// TestNothingIsLeft runs the program in the test's process, sends all kinds of requests, and checks that no goroutines
// are left after the program has ended.
func TestNothingIsLeft(t *testing.T) {
	backend := startApache(t)
	graphite := testkit.Listen(t)
	var samples atomic.Int64 // their size in bytes
	go func() {
		for c, err := graphite.Accept(); err == nil; c, err = graphite.Accept() {
			n, _ := io.Copy(io.Discard, c)
			samples.Add(n)
			_ = c.Close()
		}
	}()
	for _, mode := range []string{"fair", "cap", "cooperative"} {
		t.Run(mode, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			s := unstarted(t)
			s.configure(t, backend.url, `throttle: {mode: `+mode+`, maxHold: 1h}
cpuCount: 1
classes: {slash32: {share: 1}, slash24: off, slash16: off, userAgent: off, debtor: {header: X-Debtor, share: 0.001, burst: 0s, cap: `+strconv.FormatBool(mode == "fair")+`}}
graphite: {address: "`+graphite.Addr().String()+`", prefix: sites, interval: 1s}
metrics: "127.0.0.1:`+freePort(t)+`"
log: {access: all}
timeouts: {drain: 50ms}
robots: {refresh: off}
`)
			ctx, end := context.WithCancel(t.Context())
			defer end()
			status := make(chan int, 1)
			stdout := new(testkit.Output)
			go func() { status <- run(ctx, []string{"-config", s.file}, nil, stdout, s.Stderr) }()
			s.serves()
			t.Run("asks", func(t *testing.T) { s.asksForEverything(t, mode) })
			testkit.Eventually(t, "Graphite is told", func() bool { return samples.Load() > 0 })
			end()
			testkit.Same(t, 0, <-status, "status, after\n%s", s.Stderr)
			testkit.Same(t, "", stdout.String(), "it printed")
			testkit.Must(t, goleak.Find(before))
		})
	}
}

// asksForEverything sends requests of all kinds, and returns while some are still in progress.
func (s *sidecarProcess) asksForEverything(t *testing.T, mode string) {
	for i, p := range protocols {
		c := p.client(t)
		as := func(client string) http.Header {
			return http.Header{"X-Forwarded-For": {fmt.Sprintf("198.51.%d.%s", i, client)}}
		}
		fetch(t, c, http.MethodGet, s.url+"/style.css", as("1"), nil)
		fetch(t, c, http.MethodHead, s.url+"/page.php?ms=1", as("2"), nil)
		fetch(t, c, http.MethodPost, s.url+"/upload.php", as("3"), strings.NewReader(strings.Repeat("x", megabyte)))
		fetch(t, c, http.MethodGet, s.url+"/headers.php?status=404", as("4"), nil)
		// clients that disconnect in the middle
		for j, path := range []string{"/download.php?mb=1000", "/sse.php?n=1000&ms=10"} {
			res := open(t, c, http.MethodGet, s.url+path, as(fmt.Sprint(5+j)), nil)
			if _, err := io.ReadFull(res.Body, make([]byte, 20)); err != nil {
				t.Error(err)
			}
			_ = res.Body.Close()
		}
		s.leaves(t, c, http.MethodGet, "/sleep.php?ms=60000", as("7"), nil)
		half, _ := io.Pipe() // a body that never comes
		s.leaves(t, c, http.MethodPost, "/upload.php", as("8"), half)
	}
	debtor := http.Header{"X-Forwarded-For": {"203.0.113.1"}, "X-Debtor": {"1"}}
	if mode != "cooperative" { // the first request runs, and others wait until its cost is paid
		fetch(t, newClient(t), http.MethodGet, s.url+"/page.php?ms=50", debtor, nil)
	}
	_ = s.later(debtor, "/page.php?ms=50") // held until the end
	testkit.Eventually(t, "a held request", func() bool { return s.stats().Held == 1 })
}

// leaves sends a request, and disconnects when the request is at the backend. The backend finishes the request unless
// it is waiting for the client.
func (s *sidecarProcess) leaves(t *testing.T, c *http.Client, method, path string, h http.Header, body io.Reader) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	testkit.Must(t, err)
	req.Header = h
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if res, err := c.Do(req); err == nil {
			t.Errorf("%s was answered: %s", path, res.Status)
			_ = res.Body.Close()
		}
	}()
	client := h.Get("X-Forwarded-For")
	running := func() bool {
		row, _ := s.account("slash32", client)
		return row.Running == 1
	}
	testkit.Eventually(t, path+" is running", running)
	leave()
	if closer, ok := body.(io.Closer); ok {
		_ = closer.Close()
		<-gone
		testkit.Eventually(t, path+" is not running any more", func() bool { return !running() })
		return
	}
	<-gone
}
