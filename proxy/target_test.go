package proxy

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

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
		if got := isSoundTarget(sent); got != sound {
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
	r := startHeadEcho(t)
	for _, c := range []struct{ method, host string }{
		{"GET /admin HTTP/1.1", "h"}, {"GE\tT", "h"}, {"G\u00e4T", "h"}, {"G/T", "h"}, {"", "h"},
		{"GET", "a b"}, {"GET", "a/b"}, {"GET", "a\tb"}, {"GET", "a@b"}, {"GET", "a\u00e4"},
	} {
		w, q := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
		q.Method, q.Host = c.method, c.host
		r.handler.ServeHTTP(w, q)
		if w.Code != http.StatusBadRequest {
			t.Errorf("%q of %q: status %d", c.method, c.host, w.Code)
		}
	}
}
