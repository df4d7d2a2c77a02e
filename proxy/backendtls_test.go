package proxy

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/proxy/telemetry"
)

// TestBackendTLS: a certificate isn't checked on a loopback address, because no authority issues one for it. A
// backend with a host name must have a certificate from an authority that the system trusts.
func TestBackendTLS(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	u, err := url.Parse(server.URL) // https://127.0.0.1:port
	testkit.Must(t, err)
	c, err := dialer(Backend{URL: u, DialTimeout: 10 * time.Second, Timeout: 10 * time.Second})(t.Context())
	if err != nil {
		t.Fatalf("on the loopback: %v", err)
	}
	c.Close()
	u.Host = "localhost:" + u.Port()
	if c, err := dialer(Backend{URL: u, DialTimeout: 10 * time.Second, Timeout: 10 * time.Second})(t.Context()); err == nil {
		c.Close()
		t.Error("by name, with a certificate that nobody knows")
	} else if !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
}

// TestBackendIsBusy: a backend on this machine without a worker for the TLS handshake, or with a full queue of
// connections, counts as one that takes long to answer. It hasn't received anything of the request, so the
// request loses its place when the proxy gives up or the client disconnects.
func TestBackendIsBusy(t *testing.T) {
	full := func(t *testing.T) (net.Listener, *url.URL) { // its one connection is never accepted
		path := filepath.Join(t.TempDir(), "socket")
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		testkit.Must(t, errors.Join(err, syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}), syscall.Listen(fd, 0)))
		f := os.NewFile(uintptr(fd), path)
		defer f.Close()
		l, err := net.FileListener(f)
		testkit.Must(t, err)
		c, err := net.Dial("unix", path)
		testkit.Must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return l, &url.URL{Scheme: "unix", Path: path}
	}
	secure := func(t *testing.T) (net.Listener, *url.URL) {
		l := loopback(t)
		return l, &url.URL{Scheme: "https", Host: l.Addr().String()}
	}
	for name, listen := range map[string]func(*testing.T) (net.Listener, *url.URL){"a handshake": secure, "a full queue": full} {
		begin := func(t *testing.T, timeout time.Duration) (*rig, net.Listener) {
			l, at := listen(t)
			t.Cleanup(func() { _ = l.Close() })
			return start(t, nil, fairly, func(s *setup) {
				s.backend = Backend{URL: at, DialTimeout: time.Millisecond, Timeout: timeout}
			}), l
		}
		isFree := func(r *rig) {
			testkit.Eventually(r.t, "its place is free", func() bool { return r.limiter.GateState().Busy == 0 })
		}
		t.Run(name+" takes a while", func(t *testing.T) {
			r, l := begin(t, time.Minute)
			status := make(chan int)
			go func() {
				res, _ := r.do(r.client, request(t, nil, "GET /"))
				status <- res.StatusCode
			}()
			testkit.Eventually(t, "it waits for longer than for a machine", func() bool {
				waits := false
				r.handler.running.Each(func(x *exchange) { waits = time.Since(x.backend.since) > 50*time.Millisecond })
				return waits
			})
			origin := &httptest.Server{Listener: l, Config: &http.Server{Handler: echoHeader}}
			if name == "a handshake" {
				origin.StartTLS()
			} else {
				origin.Start()
			}
			defer origin.Close()
			testkit.Same(t, http.StatusOK, <-status, "status")
		})
		t.Run(name+" takes too long", func(t *testing.T) {
			r, _ := begin(t, 100*time.Millisecond)
			if res, _ := r.do(r.client, request(t, nil, "GET /")); res.StatusCode != http.StatusGatewayTimeout {
				t.Errorf("got %d", res.StatusCode)
			}
			isFree(r)
			if line := r.line(); line["outcome"] != telemetry.BackendSlow.String() {
				t.Errorf("line %v", line)
			}
		})
		t.Run(name+" is not waited for by anybody", func(t *testing.T) {
			r, _ := begin(t, time.Hour)
			leaves(t, r.client, request(t, nil, "GET /"), 50*time.Millisecond)
			isFree(r)
		})
	}
}
