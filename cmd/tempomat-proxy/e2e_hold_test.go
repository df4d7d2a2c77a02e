package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// holder is one address that wants to hold all workers.
type holder struct {
	s      *sidecarProcess
	ctx    context.Context
	client *http.Client
	all    sync.WaitGroup
}

const holderAddress = "198.51.100.66"

// asks asks for something in the background, and reads what comes until it leaves.
func (h *holder) asks(ctx context.Context, path string) {
	h.s.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.s.url+path, nil)
	if err != nil {
		h.s.t.Fatal(err)
	}
	req.Header = from(holderAddress)
	h.all.Go(func() {
		if res, err := h.client.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
	})
}

// says begins a request, and neither goes on nor reads.
func (h *holder) says(request string) {
	h.s.t.Helper()
	var d net.Dialer
	c, err := d.DialContext(h.ctx, "tcp", strings.TrimPrefix(h.s.url, "http://"))
	if err != nil {
		h.s.t.Fatal(err)
	}
	context.AfterFunc(h.ctx, func() { _ = c.Close() })
	if _, err := io.WriteString(c, strings.ReplaceAll(request, "\n", "\r\n")); err != nil {
		h.s.t.Fatal(err)
	}
}

// TestNobodyHoldsTheWorkers has one address listen to events, upload and read next
// to nothing, and hang up. A person gets every page, the gate tells what is held,
// and nothing is left when that address has gone.
func TestNobodyHoldsTheWorkers(t *testing.T) {
	t.Parallel()
	backend := startApache(t)
	s := startProxy(t, backend.url, "")
	gate := func() (g limiter.GateState) {
		s.ask("/v1/gate", &g)
		return g
	}
	person := newClient(t)
	pages := func(when string, n int) {
		t.Helper()
		for i := range n {
			for _, path := range []string{"/page.php?ms=5", "/style.css"} {
				if a := fetch(t, person, http.MethodGet, s.url+path, from("203.0.113.1"), nil); a.StatusCode != http.StatusOK {
					t.Errorf("%s: %s, the %d. time: %s", when, path, i+1, a.Status)
				}
			}
		}
	}
	pages("alone", 3)

	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	h := &holder{s: s, ctx: ctx, client: newClient(t)}
	for range 4 {
		hasty, hangUp := context.WithCancel(ctx)
		before := gate().LongBusy
		h.asks(hasty, "/sleep.php?ms=3000")
		if before == 0 {
			testkit.Eventually(t, "it is asked for", func() bool { return gate().LongBusy > 0 })
		}
		hangUp()
	}
	testkit.Eventually(t, "an orphan", func() bool { return gate().Orphans > 0 })
	pages("beside orphans", 3)
	for i := range 20 {
		h.asks(ctx, "/sse.php?n=100000&ms=200")
		h.says("GET /download.php?mb=2 HTTP/1.1\nHost: a\nX-Forwarded-For: " + holderAddress + "\n\n")
		h.says(fmt.Sprintf("POST /upload.php?%d HTTP/1.1\nHost: a\nX-Forwarded-For: %s\nContent-Length: 60000\n\nslow", i, holderAddress))
	}
	testkit.Eventually(t, "a stream that holds its worker", func() bool { return gate().Holding > 0 })
	pages("beside streams, slow uploads and slow readers", 10)
	g := gate()
	if g.Holding == 0 || g.LongBusy < g.Holding || g.LongBusy > g.LongMost+2 {
		t.Errorf("held are %+v", g)
	}

	leave()
	h.all.Wait()
	testkit.Eventually(t, "nothing is held", func() bool {
		g := gate()
		return g.Busy+g.LongBusy+g.Holding+g.Orphans+computing(g)+g.Probes+g.Queued == 0
	})
	if row, ok := s.account("slash32", holderAddress); !ok || row.Running+row.Waiting != 0 {
		t.Errorf("its account says %+v", row)
	}
	pages("afterwards", 1)
}
