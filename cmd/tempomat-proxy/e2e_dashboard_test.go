//go:build world

package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"tempomat/internal/testkit"
)

// TestWorldDashboardInChromium has a real browser open the page of a real proxy, through a
// tunnel to the socket such as ssh's. Its title tells that the numbers are there.
func TestWorldDashboardInChromium(t *testing.T) {
	t.Parallel()
	b := startChromium(t)
	site := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(site.Close)
	s := startProxy(t, site.URL, "cpuCount: 4\n")
	page := "http://" + tunnel(t, s.admin) + "/"
	b.open(page)
	testkit.Eventually(t, "the page shows the numbers", func() bool { return b.shows(page, "0 waiting, CPU 0 %: tempomat") })
}

// tunnel listens over TCP for a unix socket, and returns where.
func tunnel(t *testing.T, socket string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go pass(c, socket)
		}
	}()
	return l.Addr().String()
}

// pass passes a connection on, until either side ends it.
func pass(c net.Conn, socket string) {
	defer c.Close()
	to, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		_, _ = io.Copy(to, c)
		_ = to.Close()
	}()
	_, _ = io.Copy(c, to)
}
