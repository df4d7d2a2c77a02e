package proxy

import (
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

// TestStatusAndBody requests each status with each method. A request without a body is passed on without one.
func TestStatusAndBody(t *testing.T) {
	backend := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 || len(r.TransferEncoding) > 0 {
			t.Errorf("%s: Content-Length %d, Transfer-Encoding %q", r.Method, r.ContentLength, r.TransferEncoding)
		}
		w.Header().Set("Method", r.Method)
		w.Header().Set("Etag", `"x"`)
		status, _ := strconv.Atoi(r.URL.Path[1:])
		if status != 204 && status != 304 {
			w.Header().Set("Content-Length", "5")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "hello")
	})
	r := start(t, backend)
	r.each(t, func(t *testing.T, c *http.Client) {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"} {
			for _, status := range []int{200, 201, 202, 204, 206, 301, 302, 304, 307, 400, 401, 404, 410, 416, 429, 500, 503, 599} {
				res, body := r.do(c, request(t, nil, method+" /"+strconv.Itoa(status)))
				bodyless := method == "HEAD" || status == 204 || status == 304
				if res.StatusCode != status || res.Header.Get("Method") != method || res.Header.Get("Etag") != `"x"` {
					t.Errorf("%s %d: got %d, %v", method, status, res.StatusCode, res.Header)
				}
				testkit.Same(t, map[bool]string{true: "", false: "hello"}[bodyless], body, "%s %d: body", method, status)
				if method == "HEAD" && status == 200 && res.ContentLength != 5 {
					t.Errorf("HEAD: Content-Length %d", res.ContentLength)
				}
			}
		}
	})
}

// TestResponseHeader compares the client's header with the backend's.
func TestResponseHeader(t *testing.T) {
	given := http.Header{
		"Set-Cookie":       {"a=1; Path=/", "b=2", "a=3"},
		"Content-Encoding": {"gzip"},
		"Content-Type":     {"text/plain"},
		"Content-Length":   {"3"},
		"Vary":             {"Accept", "Cookie"},
		"Server":           {"backend/1"},
		"Date":             {"Tue, 15 Nov 1994 08:12:31 GMT"},
		"X-Empty":          {""},
		"X-Latin":          {"caf\xe9"},
		"Www-Authenticate": {`Basic realm="x"`},
	}
	backend := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		maps.Copy(w.Header(), given)
		w.Header().Set("Keep-Alive", "timeout=5")
		w.Header().Set("Proxy-Connection", "x")
		w.Header().Set("Proxy-Authenticate", "x")
		w.Header().Set("X-Private", "x")
		w.Header().Set("Connection", "X-Private")
		w.Header().Set("Upgrade", "h2")
		_, _ = io.WriteString(w, "\x1f\x8b\x00") // invalid gzip, so a client that decodes it fails
	})
	r := start(t, backend)
	r.each(t, func(t *testing.T, c *http.Client) {
		res, body := r.do(c, request(t, nil, "GET /"))
		testkit.Same(t, given, res.Header, "the client gets")
		if body != "\x1f\x8b\x00" || res.Uncompressed {
			t.Errorf("body %q", body)
		}
	})
}

// echoHeader answers with the request's header and Host, as JSON.
var echoHeader = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	h := r.Header.Clone()
	h["Host"] = []string{r.Host}
	_ = json.NewEncoder(w).Encode(h)
})

// decodeHeader decodes an echoHeader answer, and removes the marks that differ for each request.
func decodeHeader(t *testing.T, text string) http.Header {
	t.Helper()
	h := http.Header{}
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	last := len(h[loopHeader]) - 1
	if at := slices.IndexFunc(h[loopHeader], func(s string) bool { return strings.HasPrefix(s, "tempomat-") }); at != last || last < 0 {
		t.Errorf("marked %q", h[loopHeader])
	} else if h[loopHeader] = h[loopHeader][:last]; last == 0 {
		delete(h, loopHeader)
	}
	return h
}

// checkHeard sends a header with each protocol, and checks the header and host that the backend gets.
func (r *rig) checkHeard(want http.Header, header ...string) {
	r.t.Helper()
	want = want.Clone()
	want["Host"] = []string{"site.example"}
	for _, c := range []*http.Client{r.client, r.h2c} {
		_, body := r.do(c, request(r.t, nil, "GET /", append(header, "User-Agent: ")...))
		testkit.Same(r.t, want, decodeHeader(r.t, body), "the backend gets")
	}
}

// TestRequestHeader compares the backend's header with the client's.
func TestRequestHeader(t *testing.T) {
	r := start(t, echoHeader)
	common := http.Header{
		"Host":              {"Site.Example:81"},
		"X-Forwarded-For":   {"127.0.0.1"},
		"X-Forwarded-Host":  {"Site.Example:81"},
		"X-Forwarded-Proto": {"http"},
	}
	r.each(t, func(t *testing.T, c *http.Client) {
		for _, tc := range []struct {
			name    string
			send    []string
			want    http.Header
			h1, h2c bool
		}{
			{"nothing added", []string{"User-Agent: "}, nil, true, true},
			{"kept", []string{"User-Agent: x", "Cookie: a=1; b=2", "Accept-Encoding: br", "X-Two: 1", "X-Two: 2", "CDN-Loop: other"}, http.Header{
				"User-Agent": {"x"}, "Cookie": {"a=1; b=2"}, "Accept-Encoding": {"br"}, "X-Two": {"1", "2"}, loopHeader: {"other"},
			}, true, true},
			{"te", []string{"User-Agent: ", "Te: trailers"}, http.Header{"Te": {"trailers"}}, true, true},
			{"hop by hop", []string{
				"User-Agent: ", "Connection: X-Private, close,, missing ,x-Too", "X-Private: x", "X-Too: x", "Keep-Alive: timeout=9", "Proxy-Authorization: x",
				"Proxy-Connection: x", "Proxy-Authenticate: x", "Te: gzip", "Upgrade: h2c",
			}, nil, true, false},
			{"no hiding of our own", []string{"User-Agent: ", "Connection: X-Forwarded-For, X-Forwarded-Host"}, nil, true, false},
			{"no hiding of what is for all", []string{
				"User-Agent: ", "Connection: a, b ,A", "Connection: cookie, Content-Type, cdn-loop", "A: 1", "B: 1", "C: 1", "Cookie: d=1", "Content-Type: x", "CDN-Loop: e",
			}, http.Header{"C": {"1"}, "Cookie": {"d=1"}, "Content-Type": {"x"}, loopHeader: {"e"}}, true, false},
		} {
			if c == r.h2c && !tc.h2c {
				continue // net/http's client refuses to send this
			}
			q := request(t, nil, "GET /", tc.send...)
			q.Host = "Site.Example:81"
			_, body := r.do(c, q)
			want := common.Clone()
			maps.Copy(want, tc.want)
			testkit.Same(t, want, decodeHeader(t, body), "%s", tc.name)
		}
	})
}

// TestMessages compares a request at the backend, and its answer at the client, byte for byte. The names and
// order of the fields and the reason phrase pass unchanged.
func TestMessages(t *testing.T) {
	const get, closed = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "Connection: close\r\n"
	const forwarded = "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: h\r\nX-Forwarded-Proto: http\r\n"
	const ok = "HTTP/1.1 200 OK\r\nDate: now\r\n"
	for name, tc := range map[string]struct{ asks, asked, answers, answered string }{
		"spelling": {
			"GET /a HTTP/1.1\r\nx-zoo: 1\r\nHOST: h\r\nUser-agent: x\r\nX-ape: 2\r\nx-zoo: 3\r\nConnection: close\r\n\r\n",
			"GET /a HTTP/1.1\r\nHost: h\r\nx-zoo: 1\r\nUser-agent: x\r\nX-ape: 2\r\nx-zoo: 3\r\n" + forwarded + "\r\n",
			"HTTP/1.1 200 Quite so\r\nx-zoo: 1\r\nETag: \"a\"\r\nDATE: now\r\nX-ape: 2\r\nContent-length: 2\r\n\r\nok",
			"HTTP/1.1 200 Quite so\r\nx-zoo: 1\r\nETag: \"a\"\r\nDATE: now\r\nX-ape: 2\r\nContent-Length: 2\r\n" + closed + "\r\nok",
		},
		"trailers of an answer": {
			get, "", ok + "Trailer: Sum\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nSum: 2\r\n\r\n",
			ok + "Transfer-Encoding: chunked\r\n" + closed + "\r\n0\r\nSum: 2\r\n\r\n",
		},
		"cookies, without the pass": {
			"GET / HTTP/1.1\r\nHost: h\r\nCookie: a=1;b=\"2;\xff=\" ;; c\r\nCookie: tempomat_pass=x\r\nCookie: d=1; tempomat_pass=x; e\r\nConnection: close\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: h\r\nCookie: a=1;b=\"2;\xff=\" ;; c\r\nCookie: d=1; e\r\n" + forwarded + "\r\n",
			ok + "Content-Length: 0\r\n\r\n", ok + "Content-Length: 0\r\n" + closed + "\r\n",
		},
		"an upgrade that is required": {
			get, "",
			"HTTP/1.1 426 Upgrade Required\r\nDate: now\r\nUpgrade: TLS/1.3\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n",
			"HTTP/1.1 426 Upgrade Required\r\nDate: now\r\nUpgrade: TLS/1.3\r\nContent-Length: 0\r\n" + closed + "Connection: Upgrade\r\n\r\n",
		},
		"an upgrade that is agreed to": { // fields for the backend's connection and for the proxy alone don't pass
			upgrade, "",
			"HTTP/1.1 101 Switching Protocols\r\nServer: s\r\nConnection: Upgrade, X-Own\r\nUpgrade: websocket\r\n" +
				"X-Own: 1\r\nKeep-Alive: timeout=5\r\nTempomat-Cost: 0\r\nTempomat-Standing: user\r\nTempomat-Request: 1\r\n\r\n",
			"HTTP/1.1 101 Switching Protocols\r\nServer: s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		},
		"no host": {
			"GET / HTTP/1.0\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: backend.invalid\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\n\r\n",
			ok + "Content-Length: 0\r\n\r\n", ok + "Content-Length: 0\r\n" + closed + "\r\n",
		},
		"trailers that are announced": {
			"POST / HTTP/1.1\r\nHost: h\r\nTrailer: Sum\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n",
			"POST / HTTP/1.1\r\nHost: h\r\n" + forwarded + "Transfer-Encoding: chunked\r\n\r\n",
			ok + "Content-Length: 0\r\n\r\n", ok + "Content-Length: 0\r\n" + closed + "\r\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			back := loopback(t)
			heard := make(chan string, 1)
			back.serveEach(t, func(c net.Conn) {
				b := make([]byte, 4096)
				n, _ := c.Read(b)
				heard <- string(b[:n])
				_, _ = io.WriteString(c, tc.answers)
			})
			r := startOn(t, loopback(t), back, nil)
			c := r.dial()
			send(t, c, tc.asks)
			marks := regexp.MustCompile("CDN-Loop: " + regexp.QuoteMeta(r.handler.marks.name) + "[0-9a-z]+\r\n")
			got := <-heard
			if len(marks.FindAllString(got, -1)) != 1 {
				t.Errorf("marked %q", got)
			}
			if got = marks.ReplaceAllString(got, ""); tc.asked != "" && strings.TrimSuffix(got, "0\r\n\r\n") != tc.asked {
				t.Errorf("the backend hears\n%q, want\n%q", got, tc.asked)
			}
			if got, _ := io.ReadAll(c); string(got) != tc.answered {
				t.Errorf("the client hears\n%q, want\n%q", got, tc.answered)
			}
		})
	}
}
