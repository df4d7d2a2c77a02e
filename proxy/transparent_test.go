package proxy

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestStatusAndBody asks for each status, by each method.
func TestStatusAndBody(t *testing.T) {
	backend := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
				if want := map[bool]string{true: "", false: "hello"}[bodyless]; body != want {
					t.Errorf("%s %d: body %q, want %q", method, status, body, want)
				}
				if method == "HEAD" && status == 200 && res.ContentLength != 5 {
					t.Errorf("HEAD: Content-Length %d", res.ContentLength)
				}
			}
		}
	})
}

// TestResponseHeader compares what the client gets with what the backend gave.
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
		_, _ = io.WriteString(w, "\x1f\x8b\x00") // no valid gzip: whoever unpacks it fails
	})
	r := start(t, backend)
	r.each(t, func(t *testing.T, c *http.Client) {
		res, body := r.do(c, request(t, nil, "GET /"))
		if diff := cmp.Diff(given, res.Header); diff != "" {
			t.Errorf("(-given +got):\n%s", diff)
		}
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

// decodeHeader is what echoHeader has said, without the mark that each request has once, below those of other proxies.
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

// TestRequestHeader compares what the backend gets with what the client sent.
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
				"User-Agent: ", "Connection: X-Private, close", "X-Private: x", "Keep-Alive: timeout=9", "Proxy-Authorization: x",
				"Proxy-Connection: x", "Proxy-Authenticate: x", "Te: gzip", "Upgrade: h2c",
			}, nil, true, false},
			{"no hiding of our own", []string{"User-Agent: ", "Connection: X-Forwarded-For, X-Forwarded-Host"}, nil, true, false},
		} {
			if c == r.h2c && !tc.h2c {
				continue // its client refuses to send this
			}
			q := request(t, nil, "GET /", tc.send...)
			q.Host = "Site.Example:81"
			_, body := r.do(c, q)
			want := common.Clone()
			maps.Copy(want, tc.want)
			if diff := cmp.Diff(want, decodeHeader(t, body)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.name, diff)
			}
		}
	})
}

func TestTrailersBothWays(t *testing.T) {
	backend := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Announced")
		_, _ = io.Copy(w, r.Body)
		w.Header().Set("Announced", r.Trailer.Get("Sum"))
		w.Header().Set(http.TrailerPrefix+"Late", "2")
	})
	r := start(t, backend)
	r.each(t, func(t *testing.T, c *http.Client) {
		q := request(t, io.MultiReader(strings.NewReader("body")), "POST /")
		q.Trailer = http.Header{"Sum": {"s3"}}
		res, body := r.do(c, q)
		if want := (http.Header{"Announced": {"s3"}, "Late": {"2"}}); body != "body" || !cmp.Equal(res.Trailer, want) {
			t.Errorf("%q, trailers %v, want %v", body, res.Trailer, want)
		}
	})
}

// Where the backend says nothing of a content type, nor does the proxy.
func TestContentTypeIsNotGuessed(t *testing.T) {
	backend := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header()["Content-Type"] = nil
		if q.URL.Path == "/length" {
			w.Header().Set("Content-Length", "13")
		}
		w.WriteHeader(200)
		if q.URL.Path == "/flushed" {
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = io.WriteString(w, "<html></html>")
	})
	r := start(t, backend)
	r.each(t, func(t *testing.T, c *http.Client) {
		for _, path := range []string{"/length", "/chunked", "/flushed"} {
			res, body := r.do(c, request(t, nil, "GET "+path))
			if given, ok := res.Header["Content-Type"]; ok || body != "<html></html>" {
				t.Errorf("%s: Content-Type %q, body %q", path, given, body)
			}
		}
	})
}

// A request that has no body is passed on as one that has none.
func TestNoBodyStaysNone(t *testing.T) {
	backend := http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		if q.ContentLength != 0 || len(q.TransferEncoding) > 0 {
			t.Errorf("%s: Content-Length %d, Transfer-Encoding %q", q.Method, q.ContentLength, q.TransferEncoding)
		}
	})
	r := start(t, backend)
	r.each(t, func(t *testing.T, c *http.Client) {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			r.do(c, request(t, nil, method+" /"))
		}
	})
}

// TestMessages has what the backend hears of a request, and the client of its answer, byte for byte.
// Names and their order, and the reason, pass as they were written.
func TestMessages(t *testing.T) {
	const get, closed = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "Connection: close\r\n"
	const forwarded = "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: h\r\nX-Forwarded-Proto: http\r\n"
	const ok = "HTTP/1.1 200 OK\r\nDate: now\r\n"
	const head = ok + "Trailer: Sum, Late\r\nSum: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"
	const headOn = ok + "Sum: 1\r\nTrailer: Late\r\nTransfer-Encoding: chunked\r\n" + closed + "\r\n2\r\nok\r\n"
	for name, tc := range map[string]struct{ asks, asked, answers, answered string }{
		"spelling": {
			"GET /a HTTP/1.1\r\nx-zoo: 1\r\nHOST: h\r\nUser-agent: x\r\nX-ape: 2\r\nx-zoo: 3\r\nConnection: close\r\n\r\n",
			"GET /a HTTP/1.1\r\nHost: h\r\nx-zoo: 1\r\nUser-agent: x\r\nX-ape: 2\r\nx-zoo: 3\r\n" + forwarded + "\r\n",
			"HTTP/1.1 200 Quite so\r\nx-zoo: 1\r\nETag: \"a\"\r\nDATE: now\r\nX-ape: 2\r\nContent-length: 2\r\n\r\nok",
			"HTTP/1.1 200 Quite so\r\nx-zoo: 1\r\nETag: \"a\"\r\nDATE: now\r\nX-ape: 2\r\nContent-Length: 2\r\n" + closed + "\r\nok",
		},
		"a trailer's name in the head, and no trailer": {get, "", head + "0\r\n\r\n", headOn + "0\r\n\r\n"},
		"a trailer's name in the head, and a trailer":  {get, "", head + "0\r\nSum: 2\r\n\r\n", headOn + "0\r\nSum: 2\r\n\r\n"},
		"an upgrade that is required": {
			get, "",
			"HTTP/1.1 426 Upgrade Required\r\nDate: now\r\nUpgrade: TLS/1.3\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n",
			"HTTP/1.1 426 Upgrade Required\r\nDate: now\r\nUpgrade: TLS/1.3\r\nContent-Length: 0\r\n" + closed + "Connection: Upgrade\r\n\r\n",
		},
		"no host": {
			"GET / HTTP/1.0\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: backend.invalid\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\n\r\n",
			ok + "Content-Length: 0\r\n\r\n", ok + "Content-Length: 0\r\n" + closed + "\r\n",
		},
		"trailers that have no names": {
			"POST / HTTP/1.1\r\nHost: h\r\nTrailer: a b, Sum, c@d, \"e\"\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n",
			"POST / HTTP/1.1\r\nHost: h\r\n" + forwarded + "Transfer-Encoding: chunked\r\nTrailer: Sum\r\n\r\n",
			ok + "Content-Length: 0\r\n\r\n", ok + "Content-Length: 0\r\n" + closed + "\r\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			back := loopback(t)
			r := startOn(t, loopback(t), back, nil)
			heard := make(chan string, 1)
			go func() {
				c, err := back.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				b := make([]byte, 4096)
				n, _ := c.Read(b)
				heard <- string(b[:n])
				_, _ = io.WriteString(c, tc.answers)
			}()
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

// TestNoContentHasNoLength: a client of HTTP/2 would take it for a body that does not come.
func TestNoContentHasNoLength(t *testing.T) {
	back := loopback(t)
	r := startOn(t, loopback(t), back, nil)
	go func() {
		for {
			c, err := back.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\nTrailer: X\r\nX: 1\r\n\r\n")
			_ = c.Close()
		}
	}()
	r.each(t, func(t *testing.T, c *http.Client) {
		res, _ := r.do(c, request(t, nil, "GET /"))
		if length, told := res.Header["Content-Length"]; told || res.Header.Get("X") != "1" || len(res.Trailer) > 0 {
			t.Errorf("Content-Length %q, %v, %v", length, res.Header, res.Trailer)
		}
	})
}
