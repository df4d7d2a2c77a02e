package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/connlimit"
	"tempomat/proxy/front"
	"tempomat/proxy/telemetry"
)

// TestUnixSockets runs the proxy between two unix sockets. Clients of its socket are trusted.
func TestUnixSockets(t *testing.T) {
	dir := t.TempDir()
	listen := func(name string) wire {
		l, err := Listen(t.Context(), "unix:"+filepath.Join(dir, "run", name))
		testkit.Must(t, err)
		return wire{l, func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", l.Addr().String())
		}}
	}
	front, back := listen("front.sock"), listen("back.sock")
	r := startOn(t, front, back, echoHeader, func(s *setup) {
		s.backend = Backend{URL: &url.URL{Scheme: "unix", Path: back.Addr().String()}, DialTimeout: time.Minute, Timeout: time.Minute}
	})
	r.checkHeard(http.Header{
		"X-Forwarded-For": {"203.0.113.9"}, "X-Forwarded-Host": {"site.example"}, "X-Forwarded-Proto": {"https"},
	}, "X-Forwarded-For: 203.0.113.9", "X-Forwarded-Proto: https")
	r.checkLog(map[string]any{"client": "203.0.113.9"})
	for _, w := range []wire{front, back} {
		if _, err := os.Lstat(w.Addr().String()); !os.IsNotExist(err) {
			t.Errorf("%s is left behind: %v", w.Addr(), err)
		}
	}
}

// TestOverTLS: the backend sees that requests came over TLS, with either protocol and from any client.
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
				c := newClient(r.front, false)
				transport := c.Transport.(*http.Transport)
				transport.TLSClientConfig = &tls.Config{RootCAs: authority.Pool, ServerName: "site.example"}
				transport.Protocols.SetHTTP1(!http2)
				transport.Protocols.SetHTTP2(http2)
				for said, want := range map[string]string{"": "https", "http": map[bool]string{true: "http", false: "https"}[trusted != nil]} {
					q := request(t, nil, "GET /")
					q.URL.Scheme = "https"
					if said != "" {
						q.Header.Set("X-Forwarded-Proto", said)
					}
					res, body := r.do(c, q)
					if got := decodeHeader(t, body).Get("X-Forwarded-Proto"); got != want || (res.ProtoMajor == 2) != http2 {
						t.Errorf("HTTP/%d, %q said: the backend hears %q, want %q", res.ProtoMajor, said, got, want)
					}
				}
				c.CloseIdleConnections()
			}
		})
	}
}

// TestRedirect: clients are redirected to HTTPS.
func TestRedirect(t *testing.T) {
	challenges := func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/ours") {
			_, _ = io.WriteString(w, "answer")
			return true
		}
		return false
	}
	backend := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "backend "+r.URL.Path) })
	l, plain := loopback(t), loopback(t)
	serve(t, backend, ServerOptions{Challenges: challenges}, Entrance{Listener: l, Redirect: true}, Entrance{Listener: plain})
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
		res, body := l.say(t, head)
		got := res.Status[:3] + " " + res.Header.Get("Location")
		if res.StatusCode == 200 {
			got += body
		}
		testkit.Same(t, want, got, "%q", head)
	}
	for path, want := range map[string]string{"/.well-known/acme-challenge/ours": "answer", "/a": "backend /a"} {
		_, body := plain.say(t, "GET "+path+" HTTP/1.1\r\nHost: site.example\r\n\r\n")
		testkit.Same(t, want, body, "%s without a redirect", path)
	}
	c := newClient(l, true)
	defer c.CloseIdleConnections()
	res, err := c.Do(request(t, nil, "GET /h2"))
	if err != nil || res.StatusCode != 301 || res.Header.Get("Location") != "https://site.example/h2" {
		t.Errorf("HTTP/2: %v, %v", res, err)
	}
}

// completed returns options with defaults: any number of connections, and no trusted proxy.
func completed(o ServerOptions) ServerOptions {
	if o.Table == nil {
		o.Table = connlimit.New(time.Now(), 1<<16)
	}
	o.Stepped = func(front.Step, front.Result, string, error) {}
	if o.Malformed == nil {
		o.Malformed = func() {}
	}
	if o.Peer == nil {
		o.Peer = func(string) (netip.Addr, bool) { return netip.Addr{}, false }
	}
	return o
}

// serve runs a new server for a handler until the test ends.
func serve(t *testing.T, h http.Handler, o ServerOptions, entrances ...Entrance) {
	o.Header, o.Idle, o.Log = time.Minute, time.Minute, zap.NewNop()
	s := NewServer(h, completed(o))
	served := make(chan error, 1)
	go func() { served <- s.Serve(entrances) }()
	t.Cleanup(func() {
		testkit.Must(t, errors.Join(s.Drain(context.Background()), <-served))
	})
}

// TestProxiedClient: the client that a trusted proxy names is charged and counted, and the client's own claims
// are ignored.
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
		c := newClient(wire{r.front, func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := r.front.dial(ctx, network, address)
			if err == nil {
				_, err = io.WriteString(c, "PROXY TCP4 203.0.113.9 127.0.0.1 5000 443\r\n")
			}
			return c, err
		}}, http2)
		res, body := r.do(c, request(t, nil, "GET /", "X-Forwarded-For: 198.51.100.1", "X-Forwarded-Proto: https"))
		h := decodeHeader(t, body)
		if h.Get("X-Forwarded-For") != "203.0.113.9" || h.Get("X-Forwarded-Proto") != "http" {
			t.Errorf("HTTP/%d: the backend hears %v", res.ProtoMajor, h)
		}
		if top := table.Stats(1).Top; len(top) != 1 || top[0].Prefix.String() != "203.0.113.9/32" {
			t.Errorf("HTTP/%d: connections are of %v", res.ProtoMajor, top)
		}
		c.CloseIdleConnections()
	}
	r.checkLog(map[string]any{"client": "203.0.113.9"})
}

// TestRedirectThatIsNotRead: a stream or a connection ends even if its client doesn't read the redirect.
func TestRedirectThatIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.NotFoundHandler(), func(s *setup) {
			s.entrance.Redirect = true
			s.server.Challenges = func(w http.ResponseWriter, _ *http.Request) bool { _, _ = io.WriteString(w, "x"); return true }
		})
		c := newReader(t, r.dial())
		c.host = "a/b"
		c.ask("/", 1)
		for _, path := range []string{"/", "/.well-known/acme-challenge/x"} {
			c1 := r.dial()
			send(t, c1, "GET "+path+" HTTP/1.1\r\nHost: h\r\n\r\n")
			defer func() {
				_ = c1.SetDeadline(time.Now().Add(time.Second))
				if _, err := c1.Write([]byte("G")); !errors.Is(err, io.ErrClosedPipe) {
					t.Errorf("%s: the connection is still open: %v", path, err)
				}
				_ = c1.Close()
			}()
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		testkit.Same(t, 1, c.reset, "streams reset")
	})
}

// TestRedirectOfHTTPS: requests that came to a proxy in front over HTTPS are not redirected.
func TestRedirectOfHTTPS(t *testing.T) {
	const address = "\x0a\x01\x02\x03\x7f\x00\x00\x01\x30\x39\x00\x50"
	header := func(tlv string) string {
		return "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00" + string(rune(len(address)+len(tlv))) + address + tlv
	}
	backend := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	l := loopback(t)
	serve(t, backend, ServerOptions{Peer: func(string) (netip.Addr, bool) { return netip.Addr{}, true }}, Entrance{Listener: l, Redirect: true, Proxied: true})
	for tlv, want := range map[string]int{"": http.StatusMovedPermanently, "\x20\x00\x05\x01\x00\x00\x00\x00": http.StatusOK} {
		if res, _ := l.say(t, header(tlv)+"GET / HTTP/1.1\r\nHost: site.example\r\n\r\n"); res.StatusCode != want {
			t.Errorf("by HTTPS %t: %s, want %d", tlv != "", res.Status, want)
		}
	}
}

// TestServeFails: if one listener fails, the others are closed.
func TestServeFails(t *testing.T) {
	s := NewServer(http.NotFoundHandler(), completed(ServerOptions{Log: zap.NewNop()}))
	good, bad := loopback(t), loopback(t)
	_ = bad.Close()
	if err := s.Serve([]Entrance{{Listener: good}, {Listener: bad}}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
	if c, err := good.dial(t.Context(), "", ""); err == nil {
		_ = c.Close()
		t.Error("the good listener is still open")
	}
}

// TestReload replaces the policy while a request runs: the request keeps its own policy, up to its line in
// the access log.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, sleeper)
		go func() {
			time.Sleep(500 * time.Millisecond)
			r.change(func(p *Policy) { p.Access = telemetry.AccessOff })
		}()
		for range 2 {
			r.do(r.client, request(t, nil, "GET /"))
		}
		testkit.Same(t, 1, len(r.lines()), "access log lines, of the old policy only")
	})
}

// TestRetire: no further connection is accepted, and open ones are served until the drain has lingered.
func TestRetire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		open, err := r.front.dial(t.Context(), "", "")
		testkit.Must(t, err)
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
		testkit.Must(t, <-drained)
	})
}

// TestUpgradesEndWithTheServer: a server that ends closes its upgraded connections and doesn't wait, because
// they may be open for days.
func TestUpgradesEndWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(shout))
		_, br := converse(t, r)
		from := time.Now()
		if err := r.server.Drain(t.Context()); err != nil || time.Since(from) > time.Second {
			t.Errorf("Drain: %v after %s", err, time.Since(from))
		}
		if _, err := br.ReadByte(); err == nil {
			t.Error("it goes on")
		}
	})
}

// TestReloadsUnderLoad replaces policies as fast as possible while clients send requests and an administrator
// lists them.
func TestReloadsUnderLoad(t *testing.T) {
	r := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), fairly, func(s *setup) { s.limits.Classes[0].Budget.CPUs = 1e6 })
	p := [2]Policy{*r.handler.Policy(), *r.handler.Policy()}
	p[1].Limits.Mode = limiter.Cooperative
	var all sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		all.Go(func() {
			for !testkit.Ready(done) {
				if res, _ := r.do(r.client, request(t, nil, "GET /")); res.StatusCode != 200 {
					t.Errorf("got %d", res.StatusCode)
				}
			}
		})
	}
	for i := range 1000 {
		r.handler.SetPolicy(&p[i%2])
		r.handler.ListWaiting(time.Now(), 10, nil)
		r.handler.ListRunning(10, nil)
	}
	close(done)
	all.Wait()
}
