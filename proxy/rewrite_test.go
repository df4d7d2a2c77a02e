package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"tempomat/classify/standing"
	"tempomat/limiter"
	"tempomat/proxy/backend"
	"tempomat/proxy/front"
	"tempomat/proxy/http1"
)

// TestNamed has a header of which a client can name each field thousands of times.
func TestNamed(t *testing.T) {
	var h http1.Fields
	h.Add("Connection", "close, a, b ,A")
	h.Add("Connection", "keep-alive,,cookie, missing, upgrade, content-length, x-forwarded-for, cdn-loop")
	for _, key := range []string{"A", "B", "C", "Cookie", "Upgrade", "Content-Length", "X-Forwarded-For", "Cdn-Loop"} {
		h.Add(key, "x")
	}
	private := named(h)
	maps.DeleteFunc(private, func(_ string, is bool) bool { return !is })
	if got := slices.Sorted(maps.Keys(private)); !slices.Equal(got, []string{"A", "B", "Upgrade"}) {
		t.Errorf("got %v", got)
	}
	var passed []string
	for _, f := range endToEnd(nil, h) {
		passed = append(passed, f.Key)
	}
	if !slices.Equal(passed, []string{"C", "Cookie", "Content-Length", "X-Forwarded-For", "Cdn-Loop"}) {
		t.Errorf("passed on: %v", passed)
	}
}

// TestMaxForwards: TRACE and OPTIONS end at the proxy that they ask after, and are one
// less to the next one. Other methods know nothing of it.
func TestMaxForwards(t *testing.T) {
	r := start(t, echoHeader)
	r.each(t, func(t *testing.T, c *http.Client) {
		for _, tc := range []struct {
			method, told string
			status       int
			want         string // what the backend is told
		}{
			{"OPTIONS", "0", 204, ""}, {"TRACE", "0", 405, ""},
			{"OPTIONS", "3", 200, "2"}, {"TRACE", "1", 200, "0"}, {"GET", "0", 200, "0"}, {"POST", "7", 200, "7"}, {"OPTIONS", "x", 200, "x"},
		} {
			res, body := r.do(c, request(t, nil, tc.method+" /", "Max-Forwards: "+tc.told))
			if res.StatusCode != tc.status {
				t.Errorf("%s, %s: got %d", tc.method, tc.told, res.StatusCode)
			}
			if res.StatusCode != 200 {
				continue
			}
			if got := decodeHeader(t, body).Get("Max-Forwards"); got != tc.want {
				t.Errorf("%s, %s: the backend is told %q, want %q", tc.method, tc.told, got, tc.want)
			}
		}
	})
}

// TestCircle: a proxy whose backend is itself says so, at once and in the log, and where every place is taken.
func TestCircle(t *testing.T) {
	front := loopback(t)
	r := startOn(t, front, loopback(t), nil, fairly, func(s *setup) {
		s.backend.URL = &url.URL{Scheme: "http", Host: front.Addr().String()}
		s.limits.Gate.Workers = 1
	})
	r.each(t, func(t *testing.T, c *http.Client) {
		res, body := r.do(c, request(t, nil, "GET /"))
		checkProblem(t, res, body, http.StatusLoopDetected, false)
	})
	if logged := r.errors.FilterMessageSnippet("came back").All(); len(logged) != 2 || logged[0].ContextMap()["host"] != "site.example" {
		t.Errorf("logged %v", logged)
	}
}

// TestASiteMayAskAnother: where the backend gets a part of one site from another one of the machine, as a proxy,
// that comes by this proxy as well. A circle in which the path grows ends all the same.
func TestASiteMayAskAnother(t *testing.T) {
	var r *rig
	r = start(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		asks := map[string]string{"/blog": "blog.example /", "/old": q.Host + " /new"}[q.URL.Path]
		if strings.HasPrefix(q.URL.Path, "/more") {
			asks = q.Host + " " + q.URL.Path + "/more"
		}
		host, path, passes := strings.Cut(asks, " ")
		if !passes {
			_, _ = io.WriteString(w, q.Host+q.URL.Path)
			return
		}
		inner := request(t, nil, "GET "+path)
		inner.Header, inner.Host = q.Header.Clone(), host
		res, body := r.do(r.client, inner)
		w.WriteHeader(res.StatusCode)
		_, _ = io.WriteString(w, body)
	}))
	for path, want := range map[string]string{"/blog": "blog.example/", "/old": "site.example/new", "/": "site.example/"} {
		if res, body := r.do(r.client, request(t, nil, "GET "+path)); res.StatusCode != http.StatusOK || body != want {
			t.Errorf("%s: %d %q", path, res.StatusCode, body)
		}
	}
	if res, _ := r.do(r.client, request(t, nil, "GET /more")); res.StatusCode != http.StatusLoopDetected {
		t.Errorf("a circle in which the path grows: %d", res.StatusCode)
	}
}

// TestForwarded sends headers that say where a request came from, as a client
// and as a trusted proxy would.
func TestForwarded(t *testing.T) {
	spoofed := []string{
		"X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 203.0.113.10, 10.0.0.1",
		"X-Forwarded-Host: other.example", "X-Forwarded-Proto: https", "Forwarded: for=203.0.113.9;proto=https",
		"X-Real-IP: 203.0.113.9", "X-Original-URL: /admin", "X-Forwarded-Port: 443", "CF-Visitor: {\"scheme\":\"https\"}",
		"Forwarded-For: 203.0.113.9", "Forwarded-For-IP: 203.0.113.9", "DO-Connecting-IP: 203.0.113.9", "Fly-Client-IP: 203.0.113.9",
		"CloudFront-Viewer-Address: 203.0.113.9:1", "X_Real_IP: 203.0.113.9", "X_Forwarded_For: 203.0.113.9", "Proxy: http://203.0.113.9",
	}
	own := http.Header{
		"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Host": {"site.example"}, "X-Forwarded-Proto": {"http"},
	}
	for _, tc := range []struct {
		name    string
		trusted bool
		send    []string
		want    http.Header
		client  string
	}{
		{"a client's own are gone", false, spoofed, own, "127.0.0.1"},
		{"a trusted proxy's stay", true, spoofed, http.Header{
			"X-Forwarded-For":  {"203.0.113.9, 203.0.113.10, 10.0.0.1, 127.0.0.1"},
			"X-Forwarded-Host": {"other.example"}, "X-Forwarded-Proto": {"https"},
			"Forwarded": {"for=203.0.113.9;proto=https"}, "X-Real-Ip": {"203.0.113.9"}, "X-Original-Url": {"/admin"},
			"X-Forwarded-Port": {"443"}, "Cf-Visitor": {"{\"scheme\":\"https\"}"},
			"Forwarded-For": {"203.0.113.9"}, "Forwarded-For-Ip": {"203.0.113.9"}, "Do-Connecting-Ip": {"203.0.113.9"},
			"Fly-Client-Ip": {"203.0.113.9"}, "Cloudfront-Viewer-Address": {"203.0.113.9:1"},
		}, "10.0.0.1"},
		{"a trusted proxy without any", true, nil, own, "127.0.0.1"},
		{"a trusted proxy's list of what it trusts", true, []string{"X-Forwarded-For: 203.0.113.9, 127.0.0.2"}, http.Header{
			"X-Forwarded-For":  {"203.0.113.9, 127.0.0.2, 127.0.0.1"},
			"X-Forwarded-Host": {"site.example"}, "X-Forwarded-Proto": {"http"},
		}, "203.0.113.9"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := start(t, echoHeader, func(s *setup) {
				if tc.trusted {
					s.classify.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
				}
			})
			for _, c := range []*http.Client{r.client, r.h2c} {
				_, body := r.do(c, request(t, nil, "GET /", append(tc.send, "User-Agent: ")...))
				got := decodeHeader(t, body)
				delete(got, "Host")
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
			for _, line := range r.lines() {
				if line["client"] != tc.client {
					t.Errorf("charged to %s, want %s", line["client"], tc.client)
				}
			}
		})
	}
}

// TestUnderscores: names of more than letters, digits and hyphens get through where that is
// configured, except those that a script would take for something that a proxy says.
func TestUnderscores(t *testing.T) {
	never := []string{
		"Content_Length: 1", "Transfer!Encoding: chunked", "Tempomat.Request: 1", "Tempomat_Cost: 1", "Cf^Connecting|IP: 203.0.113.9",
	}
	for _, c := range "!#$%&'*+.^_`|~" {
		for _, name := range []string{"X-Forwarded-For", "X-Real-IP", "X-Forwarded-Proto"} {
			never = append(never, strings.ReplaceAll(name, "-", string(c))+": 203.0.113.9",
				strings.Replace(name, "-", string(c), 1)+": 203.0.113.9", strings.ToLower(strings.ReplaceAll(name, "-", string(c)))+": 203.0.113.9")
		}
	}
	own := http.Header{"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Host": {"site.example"}, "X-Forwarded-Proto": {"http"}}
	for _, passed := range []bool{false, true} {
		r := start(t, echoHeader, func(s *setup) { s.underscores = passed })
		want := own.Clone()
		if passed {
			want["Api_key"], want["Api.key"] = []string{"1"}, []string{"2"}
		}
		for _, c := range []*http.Client{r.client, r.h2c} {
			_, body := r.do(c, request(t, nil, "GET /", append(never, "api_key: 1", "api.key: 2", "User-Agent: ")...))
			got := decodeHeader(t, body)
			delete(got, "Host")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("underscores: %v (-want +got):\n%s", passed, diff)
			}
		}
	}
}

// TestUpgradesThatAreNot: what is no WebSocket is not asked for; the request is
// answered without it.
func TestUpgradesThatAreNot(t *testing.T) {
	for asked, want := range map[string]string{
		"websocket": "websocket", "WebSocket": "WebSocket", "h2c, websocket": "websocket", "websocket/13": "websocket/13",
		"h2c": "", "TLS/1.0, HTTP/1.1": "", "": "", "web socket": "", "websocket/\xff": "", "websocketx": "",
	} {
		if got := mayUpgrade(asked); got != want {
			t.Errorf("%q: %q is asked for, want %q", asked, got, want)
		}
	}
}

// TestPartsRaiseStanding: a client that loads the parts of a page stands higher with its next request.
func TestPartsRaiseStanding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if strings.HasSuffix(q.URL.Path, ".css") {
				w.Header().Set("Content-Type", "text/css")
				return
			}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
		}), fairly)
		standing, err := standing.New([16]byte{}, standing.Config{ClientClass: "slash32", SessionClass: "session"})
		if err != nil {
			t.Fatal(err)
		}
		p := *r.handler.Policy()
		p.Standing = standing
		r.handler.SetPolicy(&p)
		for i, path := range []string{"/", "/a.css", "/b.css", "/"} {
			r.do(r.client, request(t, nil, "GET "+path))
			synctest.Wait()
			want := 1.0 // before the answer
			if i == 3 {
				want = 2
			}
			if c := r.row().Client; c == nil || c.Standing != want {
				t.Errorf("step %d, %s: standing %+v, want %g", i, path, c, want)
			}
		}
	})
}

// rawBackend serves back with a handler of raw connections. It gets each
// request's head as text, without its last line end, and answers what answer
// says.
func rawBackend(t *testing.T, back wire, answer func(head string) string) {
	t.Helper()
	go func() {
		for {
			c, err := back.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				br := bufio.NewReader(c)
				for {
					var head strings.Builder
					for !strings.HasSuffix(head.String(), "\r\n\r\n") {
						line, err := br.ReadString('\n')
						if err != nil {
							return
						}
						head.WriteString(line)
					}
					if _, err := fmt.Fprint(c, answer(strings.TrimSuffix(head.String(), "\r\n\r\n"))); err != nil {
						return
					}
				}
			}()
		}
	}()
	t.Cleanup(func() { _ = back.Close() })
}

// withBody is a complete response.
func withBody(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// headEcho answers with the head of the request.
func startHeadEcho(t *testing.T) *rig {
	t.Helper()
	back := loopback(t)
	rawBackend(t, back, withBody)
	return startOn(t, loopback(t), back, nil)
}

// TestTargetBytes sends request targets that parsing and formatting would
// change, and looks at the bytes that the backend got.
func TestTargetBytes(t *testing.T) {
	r := startHeadEcho(t)
	c := r.dial()
	br := bufio.NewReader(c)
	for _, target := range []string{
		"/", "/a/b.html", "//", "//a//b", "/./a", "/../a", "/a/../../b/.", "/a%2Fb", "/a%2fb", "/%7e", "/~", "/%7E/%41",
		"/caf%C3%A9", "/caf%c3%a9", "/caf\xc3\xa9", "/\xff\xfe", "/a%00b", "/%25", "/%2525", "/a;b=c/d", "/a:b@c!$&'()*+,=",
		"/{a}|b\\^`<c>\"", "/%20", "/a+b", "/*", "/http://x/y", "/:80",
		"/?", "/??", "/?a", "/?a=", "/?a=b;c", "/?a=b&&c&", "/?%zz", "/?%", "/?%4", "/?a=%2F%2f", "/?q=caf\xc3\xa9\xff", "/?\"'<>{}|\\^`",
		"/?http://x/?y", "/?a[]=1&a[]=2", "/?;", "//?a=b;c", "//a%2f?", "/{}?%zz;",
	} {
		send(t, c, "GET "+target+" HTTP/1.1\r\nHost: h\r\n\r\n")
		head := readAll(t, answer(t, br, "GET"))
		got, _, _ := strings.Cut(head, "\r\n")
		if want := "GET " + target + " HTTP/1.1"; got != want {
			t.Errorf("the client sent %q, the backend got %q", want, got)
		}
	}
}

// TestCookieBytes checks that the backend gets cookies byte for byte, but for the
// proxy's own.
func TestCookieBytes(t *testing.T) {
	r := startHeadEcho(t)
	c := r.dial()
	br := bufio.NewReader(c)
	for sent, want := range map[string]string{
		"":                                   "",
		"Cookie: a=1;b=\"2;\xff=\" ;; c\r\n": "Cookie: a=1;b=\"2;\xff=\" ;; c\r\n",
		"Cookie: a=1; tempomat_pass=x; b=2\r\nCookie: c=3\r\n":                  "Cookie: a=1; b=2\r\nCookie: c=3\r\n",
		"Cookie: tempomat_pass=x\r\nCookie: tempomat_pass=y; tempomat_pass\r\n": "Cookie: tempomat_pass\r\n",
		"Cookie: tempomat_pass=x\r\n":                                           "",
	} {
		send(t, c, "GET / HTTP/1.1\r\nHost: h\r\n"+sent+"\r\n")
		var got string
		for line := range strings.Lines(readAll(t, answer(t, br, "GET")) + "\r\n") {
			if strings.HasPrefix(line, "Cookie:") {
				got += line
			}
		}
		if got != want {
			t.Errorf("the client sent %q, the backend got %q", sent, got)
		}
	}
}

// TestTargetForms are the request targets that are no plain paths.
func TestTargetForms(t *testing.T) {
	r := startHeadEcho(t)
	for _, tc := range []struct{ name, send, line, host string }{
		{"absolute", "GET http://Other.example:8080/a%2Fb?x;y HTTP/1.1\r\nHost: ignored\r\n", "GET /a%2Fb?x;y HTTP/1.1", "Other.example:8080"},
		{"absolute without path", "GET http://other.example HTTP/1.1\r\nHost: ignored\r\n", "GET / HTTP/1.1", "other.example"},
		{"absolute https", "GET https://other.example/a HTTP/1.1\r\nHost: ignored\r\n", "GET /a HTTP/1.1", "other.example"},
		{"asterisk", "OPTIONS * HTTP/1.1\r\nHost: h\r\n", "OPTIONS * HTTP/1.1", "h"},
		{"HTTP/1.0", "GET /a HTTP/1.0\r\nHost: h\r\n", "GET /a HTTP/1.1", "h"},
		{"HTTP/1.0 without Host", "GET /a HTTP/1.0\r\n", "GET /a HTTP/1.1", "backend.invalid"},
		{"unusual method", "M-SEARCH /a HTTP/1.1\r\nHost: h\r\n", "M-SEARCH /a HTTP/1.1", "h"},
		{"Host", "GET / HTTP/1.1\r\nHost: SITE.Example:8080\r\n", "GET / HTTP/1.1", "SITE.Example:8080"},
		{"Host of IPv6", "GET / HTTP/1.1\r\nHost: [2001:DB8::1]:80\r\n", "GET / HTTP/1.1", "[2001:DB8::1]:80"},
		{"Host with underscore", "GET / HTTP/1.1\r\nHost: a_b..c\r\n", "GET / HTTP/1.1", "a_b..c"},
	} {
		c := r.dial()
		send(t, c, tc.send+"\r\n")
		head := readAll(t, answer(t, bufio.NewReader(c), "GET"))
		lines := strings.Split(head, "\r\n")
		if lines[0] != tc.line || lines[1] != "Host: "+tc.host {
			t.Errorf("%s: the backend got %q, want %q for host %q", tc.name, lines[:2], tc.line, tc.host)
		}
		_ = c.Close()
	}
}

// TestHTTP10 checks that an old client gets neither chunks nor a connection
// that stays open.
func TestHTTP10(t *testing.T) {
	back := loopback(t)
	rawBackend(t, back, func(string) string {
		return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
	})
	r := startOn(t, loopback(t), back, nil)
	c := r.dial()
	send(t, c, "GET / HTTP/1.0\r\n\r\n")
	res := answer(t, bufio.NewReader(c), "GET")
	if res.TransferEncoding != nil || !res.Close {
		t.Errorf("transfer encoding %q, close %t", res.TransferEncoding, res.Close)
	}
	if got := readAll(t, res); got != "hello" {
		t.Errorf("got %q", got)
	}
}

func TestMalformedRequests(t *testing.T) {
	back := loopback(t)
	rawBackend(t, back, withBody)
	var malformed atomic.Int64
	requests := int64(0)
	r := startOn(t, loopback(t), back, nil, func(s *setup) { s.server.Malformed = func() { malformed.Add(1) } })
	for text, status := range map[string]int{
		"CONNECT other.example:443 HTTP/1.1\r\nHost: other.example:443\r\n\r\n":                                     405,
		"GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n":                                                                      400,
		"GET / HTTP/1.1\r\n\r\n":                                                                                    400,
		"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n":                                                              400,
		"GET http://u@h/ HTTP/1.1\r\nHost: h\r\n\r\n":                                                               400,
		"GET http://h:80@evil/ HTTP/1.1\r\nHost: h\r\n\r\n":                                                         400,
		"GET /a b HTTP/1.1\r\nHost: h\r\n\r\n":                                                                      400,
		"GET /\x01 HTTP/1.1\r\nHost: h\r\n\r\n":                                                                     400,
		"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n":                               400,
		"GET / HTTP/1.1\r\nHost: h\r\nExpect: the moon\r\n\r\n":                                                     417,
		"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n":                                              501,
		"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n":                                    400,
		"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nz" + strings.Repeat("z\r\n", 1<<20):        400,
		"GET / HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("a", 2*maxHeader) + "\r\n\r\n":                          431,
		"GET /" + strings.Repeat("a", 2*maxHeader) + " HTTP/1.1\r\nHost: h\r\n\r\n":                                 431,
		"GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: \xff\r\nUser-Agent: odd upgrade type\r\n\r\n": 200,
	} {
		c := r.dial()
		go func() { _, _ = c.Write([]byte(text)) }() // the proxy may refuse it half way
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || res.StatusCode != status {
			t.Errorf("%.60q: got %v, %v, want %d", text, res, err, status)
		}
		_ = c.Close()
		requests++
	}
	if n, lines := malformed.Load(), int64(len(r.lines())); n == 0 || n+lines != requests {
		t.Errorf("of %d requests %d are none, and %d others were noted", requests, n, lines)
	}
}

// TestTargetIsOneWord: HTTP/2 lets anything be in a path; what reaches the backend does
// not end a line, nor a word of it, nor has a part that some backends cut off.
func TestTargetIsOneWord(t *testing.T) {
	for sent, sound := range map[string]bool{
		"/a%2Fb;c?d=%20e&f": true, "//a//b?": true, "/\u00fc?\u00fc": true, "*": true, "http://other/a%23": true,
		"/a b": false, "/a HTTP/1.1?b": false, "/a#b": false, "/a?b#": false, "/a\tb": false, "/a\x7f": false, "/a ": false,
	} {
		if got := http1.IsTarget(sent); got != sound {
			t.Errorf("%q: sound %t", sent, got)
		}
	}
	r := startHeadEcho(t)
	for _, path := range []string{"/login#x", "/#"} {
		c := r.dial()
		send(t, c, "GET "+path+" HTTP/1.1\r\nHost: h\r\n\r\n")
		if res := answer(t, bufio.NewReader(c), "GET"); res.StatusCode != 400 {
			t.Errorf("%s: got %d", path, res.StatusCode)
		}
	}
	q := request(t, nil, "GET /")
	q.URL.Opaque = "/a HTTP/1.0"
	if res, _ := r.do(r.h2c, q); res.StatusCode != 400 {
		t.Errorf("a space in HTTP/2: got %d", res.StatusCode)
	}
}

// TestMethodAndHostAreWords: HTTP/2 lets anything be in them, also a target other than
// the one that was looked at.
func TestMethodAndHostAreWords(t *testing.T) {
	for _, c := range []struct{ method, host string }{
		{"GET /admin HTTP/1.1", "h"}, {"GE\tT", "h"}, {"G\u00e4T", "h"}, {"G/T", "h"}, {"", "h"},
		{"GET", "a b"}, {"GET", "a/b"}, {"GET", "a\tb"}, {"GET", "a@b"}, {"GET", "a\u00e4"},
	} {
		q := httptest.NewRequest(http.MethodGet, "/", nil)
		if q.Method, q.Host = c.method, c.host; isSound(q) {
			t.Errorf("%q of %q passes", c.method, c.host)
		}
	}
}

// BenchmarkPath is a small page through the proxy, without a kernel: client and backend are
// connections in memory that never wait. So it is what the code itself takes, and what it
// allocates.
func BenchmarkPath(b *testing.B) {
	for _, m := range []limiter.Mode{limiter.Observe, limiter.Fair} {
		b.Run(m.String(), func(b *testing.B) {
			ask := wireless(b, m)
			b.ReportAllocs()
			b.ResetTimer()
			ask(b.N)
		})
	}
}

// TestPathAllocatesLittle counts what is allocated for a GET: the heads of request and answer, each as one
// text, what classify keeps of the request, and the mark of its place among those that run. The ticker beside them
// needs some.
func TestPathAllocatesLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector has pools lose what they keep")
	}
	for _, m := range []limiter.Mode{limiter.Observe, limiter.Fair} {
		ask := wireless(t, m)
		ask(100)
		const n = 2000
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		ask(n)
		runtime.ReadMemStats(&after)
		if got := float64(after.Mallocs-before.Mallocs) / n; got >= 5 {
			t.Errorf("%v: %.2f allocations for a request", m, got)
		}
	}
}

// wireless is a proxy without a kernel, which is to be asked so many times over a connection.
func wireless(t testing.TB, m limiter.Mode) (ask func(times int)) {
	dial := func(context.Context) (net.Conn, error) {
		return &scripted{says: benchResponse(), after: true}, nil
	}
	upstream := &Upstream{timeout: time.Minute, pool: backend.NewPool(dial, "", time.Minute), log: zap.NewNop()}
	t.Cleanup(upstream.Close)
	h := benchHandler(t, m, upstream)
	return func(times int) {
		client := &scripted{says: []byte(benchRequest), left: times, done: make(chan struct{})}
		s := front.NewServer(h, front.Options{
			Header: time.Minute, Idle: time.Minute, MaxHead: maxHeader, Log: zap.NewNop(),
			Context: func(ctx context.Context, c net.Conn) context.Context { return connContext(ctx, c, &closing{}) },
		})
		if err := s.Serve(&once{conn: client, done: client.done, server: s}, front.Entrance{}); !errors.Is(err, http.ErrServerClosed) {
			t.Fatal(err)
		}
		if least := times * len(benchBody); client.written < least {
			t.Fatalf("%d bytes were answered, want more than %d", client.written, least)
		}
	}
}

// scripted is a connection whose other side says always the same: so many times, or once
// after each thing that it was told.
type scripted struct {
	net.Conn
	says    []byte
	rest    []byte
	left    int
	after   bool
	written int
	done    chan struct{} // closed when all was said
}

func (c *scripted) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		if c.left--; c.left < 0 {
			close(c.done)
			return 0, io.EOF
		}
		c.rest = c.says
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *scripted) Write(p []byte) (int, error) {
	c.written += len(p)
	if c.after {
		c.left++
	}
	return len(p), nil
}

func (c *scripted) Close() error                     { return nil }
func (c *scripted) SetDeadline(time.Time) error      { return nil }
func (c *scripted) SetReadDeadline(time.Time) error  { return nil }
func (c *scripted) SetWriteDeadline(time.Time) error { return nil }
func (c *scripted) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711} }

// once is a listener of one connection, and ends the server when that is done.
type once struct {
	net.Listener
	conn   net.Conn
	done   <-chan struct{}
	server *front.Server
}

func (l *once) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.done
	return nil, errors.Join(l.server.Shutdown(context.Background()), net.ErrClosed)
}

func (l *once) Close() error { return nil }
