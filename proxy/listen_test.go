package proxy

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestUnixSockets has the proxy between two of them. Who connects to its socket
// is trusted.
func TestUnixSockets(t *testing.T) {
	dir := t.TempDir()
	listen := func(name string) wire {
		l, err := Listen(t.Context(), "unix:"+filepath.Join(dir, "run", name))
		if err != nil {
			t.Fatal(err)
		}
		return wire{l, func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", l.Addr().String())
		}}
	}
	front, back := listen("front.sock"), listen("back.sock")
	r := startOn(t, front, back, echoHeader, func(s *setup) {
		s.backend = Backend{URL: &url.URL{Scheme: "unix", Path: back.Addr().String()}, DialTimeout: time.Minute, Timeout: time.Minute}
	})
	r.each(t, func(t *testing.T, c *http.Client) {
		_, body := r.do(c, request(t, nil, "GET /", "User-Agent: ", "X-Forwarded-For: 203.0.113.9", "X-Forwarded-Proto: https"))
		want := http.Header{
			"Host": {"site.example"}, "X-Forwarded-For": {"203.0.113.9"},
			"X-Forwarded-Host": {"site.example"}, "X-Forwarded-Proto": {"https"},
		}
		if diff := cmp.Diff(want, decodeHeader(t, body)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	for _, line := range r.lines() {
		if line["client"] != "203.0.113.9" {
			t.Errorf("charged to %v", line["client"])
		}
	}
	for _, w := range []wire{front, back} {
		if _, err := os.Lstat(w.Addr().String()); !os.IsNotExist(err) {
			t.Errorf("%s is left behind: %v", w.Addr(), err)
		}
	}
}

func TestListenErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken := loopback(t)
	for address, want := range map[string]string{
		taken.Addr().String():   "address already in use",
		"127.0.0.1:not-a-port":  "not-a-port",
		"unix:" + file:          "is not a socket",
		"unix:" + file + "/a/b": "not a directory",
	} {
		l, err := Listen(t.Context(), address)
		if err == nil {
			_ = l.Close()
			t.Errorf("%s: no error", address)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %q, want %q", address, err, want)
		}
	}
}
