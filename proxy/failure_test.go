package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
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

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/telemetry"
)

// checkProblem checks that a page, or problem details (RFC 9457), says why the backend did not answer.
func checkProblem(t *testing.T, res *http.Response, body string, status int, json bool) (id string) {
	t.Helper()
	if res.StatusCode != status || res.Header.Get("Cache-Control") != "no-store" || res.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("got %d, %v", res.StatusCode, res.Header)
	}
	if json {
		return checkJSON(t, res, body)
	}
	testkit.Same(t, "text/plain; charset=utf-8", res.Header.Get("Content-Type"), "Content-Type")
	first, rest, _ := strings.Cut(body, "\n\n")
	testkit.Same(t, strings.TrimPrefix(res.Status, "HTTP/1.1 "), first, "the page begins with")
	_, id, _ = strings.Cut(rest, "(request ")
	id = strings.TrimSuffix(id, ")\n")
	if len(id) != 8 || len(rest) > 300 {
		t.Errorf("the page is %q", body)
	}
	return id
}

func checkJSON(t *testing.T, res *http.Response, body string) (id string) {
	t.Helper()
	testkit.Same(t, "application/problem+json", res.Header.Get("Content-Type"), "Content-Type")
	var p struct {
		Type, Title, Detail, Class, Limit, RequestID string
		Status, RetryAfter                           int
	}
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	if p.RequestID != res.Header.Get("X-Request-Id") || p.Type != "about:blank" || p.Title != http.StatusText(res.StatusCode) || p.Status != res.StatusCode || p.Detail == "" || len(p.RequestID) != 8 {
		t.Errorf("problem %+v", p)
	}
	return p.RequestID
}

// accepts are values of Accept and whether they ask for JSON.
var accepts = map[string]bool{
	"": false, "*/*": false, "text/plain,application/json;q=0.9": false,
	"application/json": true, "application/problem+json, */*;q=0.1": true,
}

func TestBackendFailures(t *testing.T) {
	for _, tc := range []struct {
		name    string
		dial    error          // nil: it takes connections
		backend func(net.Conn) // what the backend does with a connection
		status  int
		outcome string
	}{
		{"down", syscall.ECONNREFUSED, nil, 502, "backend down"},
		{"takes no connection", os.ErrDeadlineExceeded, nil, 502, "backend down"},
		{"hangs up", nil, func(c net.Conn) {}, 502, "backend down"},
		{"speaks no HTTP", nil, func(c net.Conn) { _, _ = io.WriteString(c, "220 mail.example ESMTP\r\n") }, 502, "backend down"},
		{"slow", nil, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, 504, "backend slow"},
		{"slow in its header", nil, func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			_, _ = io.Copy(io.Discard, c)
		}, 504, "backend slow"},
	} {
		inBubble(t, tc.name, func(t *testing.T) {
			back := memory()
			if tc.dial != nil {
				back.dial = func(context.Context, string, string) (net.Conn, error) {
					return nil, &net.OpError{Op: "dial", Err: tc.dial}
				}
			}
			back.serveEach(t, func(c net.Conn) {
				_, _ = http.ReadRequest(bufio.NewReader(c))
				tc.backend(c)
			})
			r := startOn(t, memory(), back, nil)
			ids := map[string]bool{}
			for accept, json := range accepts {
				for _, c := range []*http.Client{r.client, r.h2c} {
					res, body := r.do(c, request(t, nil, "GET /x", "Accept: "+accept))
					ids[checkProblem(t, res, body, tc.status, json)] = true
				}
			}
			r.checkLog(map[string]any{"outcome": tc.outcome, "status": int64(tc.status)})
			if n := r.errors.FilterLevelExact(zap.ErrorLevel).Len(); n != len(ids) || r.errors.Len() != n || n != 2*len(accepts) {
				t.Errorf("%d errors of %d log lines for %d request ids: %v", n, r.errors.Len(), len(ids), r.errors.All())
			}
			for _, e := range r.errors.All() {
				if m := e.ContextMap(); !ids[m["request"].(string)] || m["path"] != "/x" || m["method"] != "GET" || e.Message != tc.outcome {
					t.Errorf("error log: %s %v", e.Message, m)
				}
			}
		})
	}
}

// TestBackendBreaksOff: the client can distinguish half an answer from a whole one.
func TestBackendBreaksOff(t *testing.T) {
	for name, head := range map[string]string{
		"length":  "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
		"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
	} {
		for _, m := range []limiter.Mode{limiter.Observe, limiter.Cooperative} {
			inBubble(t, name+" "+m.String(), func(t *testing.T) {
				back := memory()
				back.serveEach(t, func(c net.Conn) {
					_, _ = http.ReadRequest(bufio.NewReader(c))
					_, _ = io.WriteString(c, head)
				})
				r := startOn(t, memory(), back, nil, mode(m))
				for _, c := range []*http.Client{r.client, r.h2c} {
					res, err := c.Do(request(t, nil, "GET /"))
					if err != nil {
						continue // the client noticed before it got the header
					}
					if body, err := io.ReadAll(res.Body); err == nil {
						t.Errorf("got %q without an error", body)
					}
					_ = res.Body.Close()
				}
				r.checkLog(map[string]any{"outcome": "backend broke"})
				testkit.Same(t, 2, r.errors.Len(), "log lines for 2 requests: %v", r.errors.All())
			})
		}
	}
}

// TestHalfClosed: a client that closes its sending side and continues to read counts as disconnected, and must
// not get an empty answer.
func TestHalfClosed(t *testing.T) {
	end := make(chan struct{})
	r := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))
	c := r.dial()
	send(t, c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	testkit.Must(t, c.(*net.TCPConn).CloseWrite())
	r.awaitOrphans(1)
	close(end)
	if got, err := io.ReadAll(c); err != nil || len(got) != 0 {
		t.Errorf("got %q, %v, want nothing", got, err)
	}
	if line := r.line(); line["outcome"] != "client gone" {
		t.Errorf("access log: %v", line)
	}
}

// TestLogOfFailuresIsCapped: a client that fails on purpose can't fill the disk.
func TestLogOfFailuresIsCapped(t *testing.T) {
	core, lines := observer.New(zap.DebugLevel)
	log := Capped(zap.New(core))
	for range 5000 {
		log.Error("backend down")
	}
	log.Error("backend slow")
	if n := lines.Len(); n < mostLines+1 || n > 2*mostLines {
		t.Errorf("%d lines for 5001 failures", n)
	}
}

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
