package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/connlimit"
	"tempomat/proxy/telemetry"
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

// TestOverTLS has requests come over TLS, with either protocol and from whoever, and the backend
// told so.
func TestOverTLS(t *testing.T) {
	authority := testkit.NewAuthority(t)
	config := &tls.Config{Certificates: []tls.Certificate{authority.Pair(t, "site.example")}, NextProtos: []string{"h2", "http/1.1"}}
	for name, trusted := range map[string][]netip.Prefix{"a stranger": nil, "a trusted proxy": {netip.MustParsePrefix("127.0.0.0/8")}} {
		t.Run(name, func(t *testing.T) {
			r := start(t, echoHeader, func(s *setup) {
				s.entrance.TLS = config
				s.classify.TrustedProxies = trusted
			})
			for _, http2 := range []bool{false, true} {
				transport := &http.Transport{
					ForceAttemptHTTP2: http2, TLSClientConfig: &tls.Config{RootCAs: authority.Pool, ServerName: "site.example"},
					DialContext: r.front.dial,
				}
				for said, want := range map[string]string{"": "https", "http": map[bool]string{true: "http", false: "https"}[trusted != nil]} {
					q := request(t, nil, "GET /", "X-Forwarded-Proto: "+said)
					q.URL.Scheme = "https"
					if said == "" {
						q.Header.Del("X-Forwarded-Proto")
					}
					res, err := transport.RoundTrip(q)
					if err != nil {
						t.Fatal(err)
					}
					body, _ := io.ReadAll(res.Body)
					_ = res.Body.Close()
					if got := decodeHeader(t, string(body)).Get("X-Forwarded-Proto"); got != want || (res.ProtoMajor == 2) != http2 {
						t.Errorf("HTTP/%d, %q said: the backend hears %q, want %q", res.ProtoMajor, said, got, want)
					}
				}
				transport.CloseIdleConnections()
			}
		})
	}
}

// TestRedirect sends clients to HTTPS.
func TestRedirect(t *testing.T) {
	challenges := func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/ours") {
			_, _ = io.WriteString(w, "answer")
			return true
		}
		return false
	}
	backend := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "backend "+r.URL.Path) })
	l := loopback(t)
	s := NewServer(backend, ServerOptions{Header: time.Minute, Idle: time.Minute, Log: nopLog(), Challenges: challenges})
	plain := loopback(t)
	served := make(chan error, 1)
	go func() { served <- s.Serve([]Entrance{{Listener: l, Redirect: true}, {Listener: plain}}) }()
	defer func() {
		_ = s.Drain(context.Background())
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	ask := func(w wire, head string) *http.Response {
		t.Helper()
		c, err := w.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = io.WriteString(c, head)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	for head, want := range map[string]string{
		"GET /a/%20b?c=d HTTP/1.1\r\nHost: site.example\r\n\r\n":                         "301 https://site.example/a/%20b?c=d",
		"GET / HTTP/1.1\r\nHost: Site.example:8080\r\n\r\n":                              "301 https://Site.example/",
		"HEAD //x HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n\r\n":                            "301 https://[2001:db8::1]//x",
		"POST /a HTTP/1.1\r\nHost: site.example\r\nContent-Length: 0\r\n\r\n":            "308 https://site.example/a",
		"GET http://other.example/a HTTP/1.1\r\nHost: site.example\r\n\r\n":              "301 https://other.example/a",
		"GET / HTTP/1.0\r\n\r\n":                                                         "400 ",
		"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n":                                            "400 ",
		"GET / HTTP/1.1\r\nHost: user@site.example\r\n\r\n":                              "400 ",
		"OPTIONS * HTTP/1.1\r\nHost: site.example\r\n\r\n":                               "400 ",
		"CONNECT site.example:443 HTTP/1.1\r\nHost: site.example:443\r\n\r\n":            "400 ",
		"GET /.well-known/acme-challenge/ours HTTP/1.1\r\nHost: site.example\r\n\r\n":    "200 answer",
		"GET /.well-known/acme-challenge/x HTTP/1.1\r\nHost: site.example\r\n\r\n":       "200 backend /.well-known/acme-challenge/x",
		"GET /.well-known/acme-challenge/../../a HTTP/1.1\r\nHost: site.example\r\n\r\n": "301 https://site.example/.well-known/acme-challenge/../../a",
		"GET /.well-known/acme-challenge/%2e%2e%2fa HTTP/1.1\r\nHost: s.example\r\n\r\n": "301 https://s.example/.well-known/acme-challenge/%2e%2e%2fa",
		"GET /.well-known/acme-challenge/ HTTP/1.1\r\nHost: site.example\r\n\r\n":        "301 https://site.example/.well-known/acme-challenge/",
	} {
		res := ask(l, head)
		got := res.Status[:3] + " " + res.Header.Get("Location")
		if res.StatusCode == 200 {
			body, _ := io.ReadAll(res.Body)
			got += string(body)
		}
		if got != want {
			t.Errorf("%q: %s, want %s", head, got, want)
		}
	}
	for path, want := range map[string]string{"/.well-known/acme-challenge/ours": "answer", "/a": "backend /a"} {
		res := ask(plain, "GET "+path+" HTTP/1.1\r\nHost: site.example\r\n\r\n")
		if body, _ := io.ReadAll(io.LimitReader(res.Body, int64(len(want)))); string(body) != want {
			t.Errorf("%s without a redirect: %s", path, body)
		}
	}
	transport := &http.Transport{DialContext: l.dial, Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	q := httptest.NewRequest(http.MethodGet, "http://site.example/h2", nil)
	q.RequestURI = ""
	res, err := transport.RoundTrip(q)
	if err != nil || res.StatusCode != 301 || res.Header.Get("Location") != "https://site.example/h2" {
		t.Errorf("HTTP/2: %v, %v", res, err)
	}
}

// TestProxiedClient has a proxy tell who the client is: that one is charged and counted, and what
// it says of itself is not believed.
func TestProxiedClient(t *testing.T) {
	table := connlimit.New(time.Now(), 100)
	r := start(t, echoHeader, func(s *setup) {
		s.entrance.Proxied = true
		s.classify.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		s.server.Table = table
		s.server.Peer = func(remote string) (netip.Addr, bool) {
			a, err := netip.ParseAddrPort(remote)
			return a.Addr(), err == nil && a.Addr().IsLoopback()
		}
	})
	for _, http2 := range []bool{false, true} {
		transport := &http.Transport{Protocols: new(http.Protocols), DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := r.front.dial(ctx, network, address)
			if err == nil {
				_, err = io.WriteString(c, "PROXY TCP4 203.0.113.9 127.0.0.1 5000 443\r\n")
			}
			return c, err
		}}
		transport.Protocols.SetHTTP1(!http2)
		transport.Protocols.SetUnencryptedHTTP2(http2)
		res, err := transport.RoundTrip(request(t, nil, "GET /", "X-Forwarded-For: 198.51.100.1", "X-Forwarded-Proto: https"))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		h := decodeHeader(t, string(body))
		if h.Get("X-Forwarded-For") != "203.0.113.9" || h.Get("X-Forwarded-Proto") != "http" {
			t.Errorf("HTTP/%d: the backend hears %v", res.ProtoMajor, h)
		}
		if top := table.Stats(1).Top; len(top) != 1 || top[0].Prefix.String() != "203.0.113.9/32" {
			t.Errorf("HTTP/%d: connections are of %v", res.ProtoMajor, top)
		}
		transport.CloseIdleConnections()
	}
	for _, line := range r.lines() {
		if line["client"] != "203.0.113.9" {
			t.Errorf("charged to %v", line["client"])
		}
	}
}

// TestRedirectOfHTTPS: who came by HTTPS to a proxy before this one is there already.
func TestRedirectOfHTTPS(t *testing.T) {
	const address = "\x0a\x01\x02\x03\x7f\x00\x00\x01\x30\x39\x00\x50"
	header := func(tlv string) string {
		return "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00" + string(rune(len(address)+len(tlv))) + address + tlv
	}
	backend := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	l := loopback(t)
	s := NewServer(backend, ServerOptions{
		Header: time.Minute, Idle: time.Minute, Log: nopLog(),
		Peer: func(string) (netip.Addr, bool) { return netip.Addr{}, true },
	})
	served := make(chan error, 1)
	go func() { served <- s.Serve([]Entrance{{Listener: l, Redirect: true, Proxied: true}}) }()
	defer func() {
		_ = s.Drain(context.Background())
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	for tlv, want := range map[string]int{"": http.StatusMovedPermanently, "\x20\x00\x05\x01\x00\x00\x00\x00": http.StatusOK} {
		c, err := l.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, header(tlv)+"GET / HTTP/1.1\r\nHost: site.example\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		if res.StatusCode != want {
			t.Errorf("by HTTPS %t: %s, want %d", tlv != "", res.Status, want)
		}
	}
}

// TestDrain has one request at the backend and one that is held, and a limit
// that is long enough for both, or for neither.
func TestDrain(t *testing.T) {
	for _, tc := range []struct {
		limit time.Duration
		ok    bool
	}{{time.Minute, true}, {2500 * time.Millisecond, false}} {
		for _, m := range []limiter.Mode{limiter.Cap, limiter.Cooperative} {
			t.Run(fmt.Sprint(m, " ", tc.limit), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := startVirtual(t, http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
						if q.URL.Path == "/slow" {
							time.Sleep(4 * time.Second)
						} else {
							time.Sleep(time.Second)
						}
					}), heldFor, mode(m))
					results := make(chan error, 3)
					ask := func(c *http.Client, path string) {
						res, err := c.Do(request(t, nil, "GET "+path))
						if err == nil {
							_ = res.Body.Close()
						}
						results <- err
					}
					go ask(r.client, "/")
					time.Sleep(100 * time.Millisecond)
					go ask(r.h2c, "/") // waits, or is held behind the first
					go ask(newClient(r.front.from("192.0.2.2"), false), "/slow")
					time.Sleep(1200 * time.Millisecond)
					if r.limiter.Held() == 0 || r.meter.Running() != 1 {
						t.Errorf("%d held, %d running", r.limiter.Held(), r.meter.Running())
					}

					ctx, cancel := context.WithTimeout(t.Context(), tc.limit)
					defer cancel()
					drained := make(chan error)
					go func() { drained <- r.server.Drain(ctx) }()
					time.Sleep(time.Millisecond)
					if c, err := r.front.dial(t.Context(), "", ""); err == nil {
						_ = c.Close()
						t.Error("a new connection was taken")
					}
					if err := <-drained; (err == nil) != tc.ok || !tc.ok && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("Drain: %v", err)
					}
					failed := 0
					for range 3 {
						if err := <-results; err != nil {
							failed++
						}
					}
					if (failed == 0) != tc.ok {
						t.Errorf("%d requests failed", failed)
					}
				})
			})
		}
	}
}

// TestServeFails checks that a listener that fails takes the others down.
func TestServeFails(t *testing.T) {
	s := NewServer(http.NotFoundHandler(), ServerOptions{Log: nopLog()})
	good, bad := loopback(t), loopback(t)
	_ = bad.Close()
	if err := s.Serve(plain(good, bad)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
	if c, err := good.dial(t.Context(), "", ""); err == nil {
		_ = c.Close()
		t.Error("the good listener is still open")
	}
}

// TestReload replaces the policy while a request runs: that one keeps its own,
// and what it owes is not forgotten.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, sleeper, heldFor, mode(limiter.Observe))
		old := r.handler.Policy()
		changed := *old
		changed.Limits.Mode = limiter.Cap
		changed.Access = telemetry.AccessOff

		var all sync.WaitGroup
		all.Go(func() {
			if res, _ := r.do(r.client, request(t, nil, "GET /")); res.StatusCode != 200 {
				t.Errorf("the running request got %d", res.StatusCode)
			}
		})
		time.Sleep(500 * time.Millisecond)
		r.handler.SetPolicy(&changed)
		all.Wait()
		if level := r.row().Level; math.Abs(level+0.9) > 0.001 {
			t.Errorf("level %f after the reload, want -0.9", level)
		}
		from := time.Now()
		if res, _ := r.do(r.client, request(t, nil, "GET /")); res.StatusCode != 200 {
			t.Errorf("the next request got %d", res.StatusCode)
		}
		if took := time.Since(from); !near(took, hold+time.Second) {
			t.Errorf("the next request waited %s for the debt, want %s", took, hold)
		}
		if n := len(r.lines()); n != 1 {
			t.Errorf("%d access log lines, want only that of the old policy", n)
		}
	})
}

// TestReloadsUnderLoad swaps policies as fast as it can while clients ask.
func TestReloadsUnderLoad(t *testing.T) {
	r := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func(s *setup) { s.limits.Classes[0].Budget.CPUs = 1e6 })
	p := [2]Policy{*r.handler.Policy(), *r.handler.Policy()}
	p[1].Limits.Mode = limiter.Cooperative
	var all sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				res, err := r.client.Do(request(t, nil, "GET /"))
				if err != nil || res.StatusCode != 200 {
					t.Errorf("got %v, %v", res, err)
					return
				}
				_ = res.Body.Close()
			}
		})
	}
	for i := range 1000 {
		r.handler.SetPolicy(&p[i%2])
	}
	close(done)
	all.Wait()
}

// TestRetire: no further connection is taken, and those that are open are served until
// the drain has lingered.
func TestRetire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		open, err := r.front.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer open.Close()
		synctest.Wait() // it is accepted
		r.server.Retire(time.Minute)
		if c, err := r.front.dial(t.Context(), "", ""); err == nil {
			_ = c.Close()
			t.Error("a new connection was taken")
		}
		drained := make(chan error)
		go func() { drained <- r.server.Drain(t.Context()) }()
		time.Sleep(59 * time.Second)
		if _, err := io.WriteString(open, "GET / HTTP/1.1\r\nHost: site.example\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(open); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 OK\r\n") {
			t.Errorf("%q, %v", answer, err)
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
	})
}

// TestUpgradesEndWithTheServer: a connection that was upgraded may be open for days; the server's
// end closes it, and does not wait.
func TestUpgradesEndWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			c, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x02hi")
			_, _ = io.Copy(io.Discard, rw) // it goes on until the client ends
		}))
		c := r.dial()
		br := bufio.NewReader(c)
		send(t, c, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		if res := answer(t, br, "GET"); res.StatusCode != 101 {
			t.Fatalf("got %d", res.StatusCode)
		}
		got := make([]byte, len("\x81\x02hi"))
		if _, err := io.ReadFull(br, got); err != nil { // or the end may come before it
			t.Error(err)
		}
		from := time.Now()
		if err := r.server.Drain(t.Context()); err != nil || time.Since(from) > time.Second {
			t.Errorf("Drain: %v after %s", err, time.Since(from))
		}
		if _, err := br.ReadByte(); err == nil {
			t.Error("it goes on")
		}
	})
}
