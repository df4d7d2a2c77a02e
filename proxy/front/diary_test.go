package front

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"tempomat/proxy/http1"
)

// script answers as the request's path says.
func script(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	h := w.Header()
	h["Date"] = []string{"now"}
	say := func(text string) {
		h.Set("Content-Length", fmt.Sprint(len(text)))
		_, _ = io.WriteString(w, text)
	}
	switch path := r.URL.Path; path {
	case "/nothing":
	case "/hello":
		say("hello")
	case "/short":
		h.Set("Content-Length", "5")
		_, _ = io.WriteString(w, "hell")
	case "/long":
		h.Set("Content-Length", "5")
		n, err := io.WriteString(w, "hello!")
		if n != 0 || !errors.Is(err, http.ErrContentLength) {
			panic(fmt.Sprint("too much was written: ", n, err))
		}
		_, _ = io.WriteString(w, "hello")
	case "/pieces":
		for _, p := range []string{"a", "bc", ""} {
			_, _ = io.WriteString(w, p)
			_ = rc.Flush()
		}
	case "/large":
		_, _ = io.WriteString(w, strings.Repeat("x", outSize))
		_, _ = io.WriteString(w, strings.Repeat("y", 2*outSize))
	case "/trailers":
		h.Set("Trailer", "B, a")
		_, _ = io.WriteString(w, "x")
		_ = rc.Flush()
		w.(*Response).SetTrailer(http1.Fields{{Name: "B", Value: "1"}, {Name: "a", Value: "2"}, {Name: "C", Value: "3"}})
	case "/hints":
		w.(*Response).Fields().Add("Link", "x")
		w.WriteHeader(http.StatusEarlyHints)
		w.(*Response).Fields().Del("Link")
		h.Set("Content-Length", "0")
		w.WriteHeader(http.StatusCreated)
		w.WriteHeader(http.StatusOK) // too late to have an effect
	case "/204", "/304":
		h.Set("Content-Length", "7")
		w.WriteHeader(map[string]int{"/204": 204, "/304": 304}[path])
		_, _ = io.WriteString(w, "no one's")
	case "/close":
		h.Set("Connection", "close")
	case "/lines":
		h["X"] = []string{"a\r\nY: b", "c"}
	case "/abort":
		_, _ = io.WriteString(w, "x")
		panic(http.ErrAbortHandler)
	case "/abort-late":
		_, _ = io.WriteString(w, "x")
		_ = rc.Flush()
		panic(http.ErrAbortHandler)
	case "/ask":
		w.WriteHeader(http.StatusContinue)
		fallthrough
	case "/echo":
		b, err := io.ReadAll(r.Body)
		say(fmt.Sprintf("%s %d %q %v %v", r.Method, r.ContentLength, b, err, headerOf(w.(*Response).Trailer())))
	case "/unread":
		say("no")
	default:
		say(fmt.Sprintf("%s %s|%s|%s|%s|%s %q", r.Method, r.RequestURI, r.Host, r.URL.Host, r.URL.Path, r.URL.RawQuery, r.Header))
	}
}

// TestDiary compares what a client sends with what it receives.
func TestDiary(t *testing.T) {
	const date = "Date: now\r\n"
	get := func(path string, fields ...string) string {
		return "GET " + path + " HTTP/1.1\r\nHost: a\r\n" + strings.Join(append(fields, ""), "\r\n") + "\r\n"
	}
	ok := func(fields, body string) string {
		return "HTTP/1.1 200 OK\r\n" + date + fields + "\r\n" + body
	}
	length := func(n int) string { return fmt.Sprintf("Content-Length: %d\r\n", n) }
	const chunked, closes = "Transfer-Encoding: chunked\r\n", "Connection: close\r\n"
	bad := func(status string) string {
		return "HTTP/1.1 " + status + "\r\nContent-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\nContent-Length: N\r\n" + closes + "\r\nTEXT"
	}
	for name, tc := range map[string]struct {
		says, hears string
		open        bool // whether the connection stays open
	}{
		"nothing":              {get("/nothing"), ok(length(0), ""), true},
		"two at once":          {get("/hello") + get("/nothing"), ok(length(5), "hello") + ok(length(0), ""), true},
		"too short":            {get("/short"), ok(length(5), "hell"), false},
		"too long":             {get("/long"), ok(length(5), "hello"), true},
		"pieces":               {get("/pieces"), ok(chunked, "1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"), true},
		"pieces to HTTP/1.0":   {"GET /pieces HTTP/1.0\r\n\r\n", ok(closes, "abc"), false},
		"kept alive, pieces":   {"GET /pieces HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", ok(closes, "abc"), false},
		"kept alive":           {"GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", ok(length(5)+"Connection: keep-alive\r\n", "hello"), true},
		"HTTP/1.0":             {"GET /hello HTTP/1.0\r\n\r\n", ok(length(5)+closes, "hello"), false},
		"large":                {get("/large"), ok(chunked, "2000\r\n"+strings.Repeat("x", outSize)+"\r\n4000\r\n"+strings.Repeat("y", 2*outSize)+"\r\n0\r\n\r\n"), true},
		"trailers":             {get("/trailers"), ok("Trailer: B, a\r\n"+chunked, "1\r\nx\r\n0\r\nB: 1\r\na: 2\r\nC: 3\r\n\r\n"), true},
		"HEAD":                 {strings.Replace(get("/hello"), "GET", "HEAD", 1), ok(length(5), ""), true},
		"HEAD of no length":    {strings.Replace(get("/large"), "GET", "HEAD", 1), ok("", ""), true},
		"hints":                {get("/hints"), "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 201 Created\r\n" + date + length(0) + "\r\n", true},
		"hints to HTTP/1.0":    {"GET /hints HTTP/1.0\r\n\r\n", "HTTP/1.1 201 Created\r\n" + date + length(0) + closes + "\r\n", false},
		"204":                  {get("/204"), "HTTP/1.1 204 No Content\r\n" + date + "\r\n", true},
		"304":                  {get("/304"), "HTTP/1.1 304 Not Modified\r\n" + date + length(7) + "\r\n", true},
		"closed by the server": {get("/close") + get("/hello"), ok(length(0)+closes, ""), false},
		"closed by the client": {get("/hello", closes[:len(closes)-2]) + get("/hello"), ok(length(5)+closes, "hello"), false},
		"a line too many":      {get("/lines"), ok("X: a  Y: b\r\nX: c\r\n"+length(0), ""), true},
		"given up":             {get("/abort"), "", false},
		"given up late":        {get("/abort-late"), ok(chunked, "1\r\nx\r\n"), false},
		"no request":           {"GET /\r\n\r\n", bad("400 Bad Request"), false},
		"another version":      {"GET / HTTP/3.0\r\n\r\n", bad("505 HTTP Version Not Supported"), false},
		"a target of its own":  {get("a"), bad("400 Bad Request"), false},
		"a star":               {get("*"), bad("400 Bad Request"), false},
		"another scheme":       {get("ftp://b/"), bad("400 Bad Request"), false},
		"no host in a URL":     {get("http:///b"), bad("400 Bad Request"), false},
		"a broken escape":      {get("/%zz"), bad("400 Bad Request"), false},
		"a long head":          {get("/", "A: "+strings.Repeat("a", 64<<10)), bad("431 Request Header Fields Too Large"), false},
		"good, then bad":       {get("/hello") + "x", ok(length(5), "hello"), true},

		"a body":                 {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" + get("/hello"), ok(length(24), `POST 3 "abc" <nil> map[]`) + ok(length(5), "hello"), true},
		"chunks":                 {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2;x\r\nbc\r\n0\r\nD: e\r\n\r\n" + get("/hello"), ok(length(30), `POST -1 "abc" <nil> map[D:[e]]`) + ok(length(5), "hello"), true},
		"trailers of a request":  {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: d\r\n\r\n0\r\nD: e\r\n\r\n", ok(length(27), `POST -1 "" <nil> map[D:[e]]`), true},
		"no chunks":              {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", ok(length(73)+closes, `POST -1 "" malformed message: a chunk without a size map[]`), false},
		"asked for":              {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc", "HTTP/1.1 100 Continue\r\n\r\n" + ok(length(24), `POST 3 "abc" <nil> map[]`), true},
		"asked for once":         {"POST /ask HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc", "HTTP/1.1 100 Continue\r\n\r\n" + ok(length(24), `POST 3 "abc" <nil> map[]`), true},
		"not asked for":          {"POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n", ok(length(2)+closes, "no"), false},
		"unread":                 {"POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" + get("/hello"), ok(length(2)+closes, "no"), false},
		"an empty line after it": {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc\r\n" + get("/hello"), ok(length(24), `POST 3 "abc" <nil> map[]`) + ok(length(5), "hello"), true},
	} {
		t.Run(name, func(t *testing.T) {
			dial, _ := start(t, script, nil)
			for _, size := range []int{1 << 20, 1} {
				if got, open := converse(t, dial(), tc.says, size, len(tc.hears), tc.open); got != tc.hears && !matches(got, tc.hears) || open != tc.open {
					t.Errorf("in pieces of %d bytes: open %t\n got %q\nwant %q", size, open, got, tc.hears)
				}
			}
		})
	}
}

// matches reports whether an answer is the wanted rejection, whatever its text.
func matches(got, want string) bool {
	pattern := regexp.QuoteMeta(want)
	pattern = strings.ReplaceAll(strings.ReplaceAll(pattern, "Length: N", `Length: \d+`), "TEXT", `[^\r]+`)
	pattern = strings.Replace(pattern, "Length: 73", `Length: \d+`, 1)
	return regexp.MustCompile("^" + pattern + "$").MatchString(got)
}

// after is a request that only an open connection answers, and afterAnswer is its answer.
const (
	after       = "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
	afterAnswer = "HTTP/1.1 200 OK\r\nDate: now\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
)

// converse sends a text in pieces. It returns what it receives, and whether the connection is open
// after that. If the connection must stay open, converse sends another request to find out;
// otherwise it waits for the end.
func converse(t *testing.T, c *net.TCPConn, says string, size, expected int, stays bool) (hears string, open bool) {
	t.Helper()
	go func() {
		for len(says) > 0 {
			n := min(size, len(says))
			if _, err := io.WriteString(c, says[:n]); err != nil {
				return
			}
			says = says[n:]
		}
	}()
	all := make([]byte, expected)
	if n, err := io.ReadFull(c, all); err != nil {
		return string(all[:n]), false
	}
	if !stays {
		rest, err := io.ReadAll(c)
		return string(all) + string(rest), errors.Is(err, os.ErrDeadlineExceeded)
	}
	_, _ = io.WriteString(c, after)
	rest, _ := io.ReadAll(c)
	return strings.CutSuffix(string(all)+string(rest), afterAnswer)
}

func headerOf(fields http1.Fields) http.Header {
	h := http.Header{}
	for _, f := range fields {
		h.Add(f.Key, f.Value)
	}
	return h
}
