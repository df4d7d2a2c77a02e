package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/proxy/connlimit"
)

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
