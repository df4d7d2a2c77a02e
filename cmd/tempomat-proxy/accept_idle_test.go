//go:build accept

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestAcceptLoneCrawler: on a server that has nothing else to do, a crawler gets
// what it gets without the proxy.
func TestAcceptLoneCrawler(t *testing.T) {
	sayLoad(t)
	backend := startApache(t)
	s := startProxy(t, backend.url, "")
	f := newFigures("pages/s", "without", "with", "ratio")
	var ratios []float64
	rate := func(url string) float64 {
		c := newCrowd(t, 12*time.Second)
		start := time.Now().Add(2 * time.Second)
		c.ask("crawler", 4, "198.51.100.1", url+"/page.php?ms=100")
		c.wait()
		_, rate, _ := c.since("crawler", start)
		return rate
	}
	for range 5 {
		without, with := rate(backend.url), rate(s.url)
		ratios = append(ratios, with/without)
		f.row(" | %.2f | %.2f | %.3f", without, with, with/without)
	}
	slices.Sort(ratios)
	t.Logf("%s\nmedian %.3f", f, ratios[2])
	if ratios[2] < 0.95 {
		t.Errorf("the crawler gets %.3f of what the server can give, want 0.95", ratios[2])
	}
}

// TestAcceptGateLatency: on an idle machine the gate adds no latency, beside the
// same proxy without it.
func TestAcceptGateLatency(t *testing.T) {
	sayLoad(t)
	backend := startApache(t)
	with, without := startProxy(t, backend.url, ""), startProxy(t, backend.url, "throttle: {mode: cap}\n")
	f := newFigures("added [ms]", "p50", "p99")
	var added [2][]float64
	at := func(l *looks, q float64) float64 {
		slices.Sort(l.took)
		return l.took[int(q*float64(len(l.took)-1))].Seconds() * 1e3
	}
	for range 15 {
		a := polite(t, []*sidecarProcess{without}, 8, 80*time.Millisecond, 6*time.Second)
		b := polite(t, []*sidecarProcess{with}, 8, 80*time.Millisecond, 6*time.Second)
		p50, p99 := at(b, 0.5)-at(a, 0.5), at(b, 0.99)-at(a, 0.99)
		added[0], added[1] = append(added[0], p50), append(added[1], p99)
		f.row(" | %+.3f | %+.3f", p50, p99)
	}
	for i := range added {
		slices.Sort(added[i])
	}
	t.Log(f, fmt.Sprintf("\nmedians: p50 %+.3f ms, p99 %+.3f ms", added[0][7], added[1][7]))
	if added[1][7] > 0.3 {
		t.Errorf("the gate adds %.3f ms to the p99", added[1][7])
	}
}

// TestAcceptIdleConnections: what a connection takes that waits for its second request, all
// that the process has grown by included.
func TestAcceptIdleConnections(t *testing.T) {
	sayLoad(t)
	const n, most = 9000, 6 << 10 // each has a descriptor on both sides
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	defer backend.Close()
	s := startProxy(t, backend.URL, "")
	address := strings.TrimPrefix(s.url, "http://")
	ask := func() net.Conn {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: site.example\r\n\r\n")
		}
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(res.Body); err != nil || string(text) != "hello" {
			t.Fatal(text, err)
		}
		return c
	}
	for range 200 {
		_ = ask().Close()
	}
	time.Sleep(2 * time.Second)
	before, _ := s.memory()
	for range n {
		defer ask().Close()
	}
	time.Sleep(5 * time.Second)
	after, _ := s.memory()
	each := (after - before) * (1 << 20) / n
	t.Logf("%d connections: %.0f bytes each", n, each)
	if each > most {
		t.Errorf("a connection takes %.0f bytes, want at most %d", each, most)
	}
}
