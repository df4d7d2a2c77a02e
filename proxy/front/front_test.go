package front

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"tempomat/limiter/testkit"
	"tempomat/proxy/http1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start serves a handler on the loopback, and returns how to connect to it.
func start(t *testing.T, h http.HandlerFunc, change func(*Options)) (dial func() *net.TCPConn, s *Server) {
	t.Helper()
	o := Options{Header: time.Minute, Idle: time.Minute, MaxHead: 64 << 10, Log: zap.NewNop()}
	if change != nil {
		change(&o)
	}
	s = NewServer(h, o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l, Entrance{}) }()
	t.Cleanup(func() {
		_ = s.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	return func() *net.TCPConn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(testkit.Patience))
		return c.(*net.TCPConn)
	}, s
}

// script answers as the path says.
func script(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	h := w.Header()
	h["Date"] = []string{"now"}
	switch path := r.URL.Path; path {
	case "/nothing":
	case "/hello":
		_, _ = io.WriteString(w, "hello")
	case "/length":
		h.Set("Content-Length", "5")
		_, _ = io.WriteString(w, "hello")
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
		h["B"], h["a"], h[http.TrailerPrefix+"C"] = []string{"1"}, []string{"2"}, []string{"3"}
	case "/hints":
		h.Set("Link", "x")
		w.WriteHeader(http.StatusEarlyHints)
		h.Del("Link")
		h.Set("Content-Length", "0")
		w.WriteHeader(http.StatusCreated)
		w.WriteHeader(http.StatusOK) // too late
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
		fmt.Fprintf(w, "%s %d %q %v %v", r.Method, r.ContentLength, b, err, r.Trailer)
	case "/unread":
		_, _ = io.WriteString(w, "no")
	default:
		fmt.Fprintf(w, "%s %s|%s|%s|%s|%s %q", r.Method, r.RequestURI, r.Host, r.URL.Host, r.URL.Path, r.URL.RawQuery, r.Header)
	}
}

// TestDiary has what a client says and what it hears.
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
		open        bool // the connection is, after it
	}{
		"nothing":              {get("/nothing"), ok(length(0), ""), true},
		"two at once":          {get("/hello") + get("/nothing"), ok(length(5), "hello") + ok(length(0), ""), true},
		"a length":             {get("/length"), ok(length(5), "hello"), true},
		"too short":            {get("/short"), ok(length(5), "hell"), false},
		"too long":             {get("/long"), ok(length(5), "hello"), true},
		"pieces":               {get("/pieces"), ok(chunked, "1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"), true},
		"pieces to HTTP/1.0":   {"GET /pieces HTTP/1.0\r\n\r\n", ok(closes, "abc"), false},
		"kept alive, pieces":   {"GET /pieces HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", ok(closes, "abc"), false},
		"kept alive":           {"GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", ok(length(5)+"Connection: keep-alive\r\n", "hello"), true},
		"HTTP/1.0":             {"GET /hello HTTP/1.0\r\n\r\n", ok(length(5)+closes, "hello"), false},
		"large":                {get("/large"), ok(chunked, "2000\r\n"+strings.Repeat("x", outSize)+"\r\n4000\r\n"+strings.Repeat("y", 2*outSize)+"\r\n0\r\n\r\n"), true},
		"trailers":             {get("/trailers"), ok(chunked+"Trailer: B, a\r\n", "1\r\nx\r\n0\r\nB: 1\r\na: 2\r\nC: 3\r\n\r\n"), true},
		"HEAD":                 {strings.Replace(get("/length"), "GET", "HEAD", 1), ok(length(5), ""), true},
		"HEAD of no length":    {strings.Replace(get("/large"), "GET", "HEAD", 1), ok("", ""), true},
		"hints":                {get("/hints"), "HTTP/1.1 103 Early Hints\r\n" + date + "Link: x\r\n\r\nHTTP/1.1 201 Created\r\n" + date + length(0) + "\r\n", true},
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
		"asked for once":         {"POST /ask HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc", "HTTP/1.1 100 Continue\r\n" + date + "\r\n" + ok(length(24), `POST 3 "abc" <nil> map[]`), true},
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

// matches tells whether an answer is one that refuses, whatever it says.
func matches(got, want string) bool {
	pattern := regexp.QuoteMeta(want)
	pattern = strings.ReplaceAll(strings.ReplaceAll(pattern, "Length: N", `Length: \d+`), "TEXT", `[^\r]+`)
	pattern = strings.Replace(pattern, "Length: 73", `Length: \d+`, 1)
	return regexp.MustCompile("^" + pattern + "$").MatchString(got)
}

// after is a request that shows that a connection is open, and its answer, which ends it.
const (
	after       = "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
	afterAnswer = "HTTP/1.1 200 OK\r\nDate: now\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
)

// converse says something in pieces, and returns what it hears, and whether the connection
// is open after as much as is expected. Where that is expected it asks once more, as only
// an answer tells; else it waits for the end.
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

// TestTargets has what a handler sees of them.
func TestTargets(t *testing.T) {
	dial, _ := start(t, script, nil)
	for line, want := range map[string]string{
		"GET /":                              `GET /|a||/|`,
		"GET /?":                             `GET /?|a||/|`,
		"GET /b//../%41+?c=%zz&d;e?":         `GET /b//../%41+?c=%zz&d;e?|a||/b//../A+|c=%zz&d;e?`,
		"GET //b/c":                          `GET //b/c|a||//b/c|`,
		"GET http://B:1/c?d":                 `GET http://B:1/c?d|B:1|B:1|/c|d`,
		"GET HTTPS://b":                      `GET HTTPS://b|b|b||`,
		"OPTIONS *":                          `OPTIONS *|a||*|`,
		"CONNECT b:1":                        `CONNECT b:1|b:1|b:1||`,
		"WHATEVER /\xe4":                     "WHATEVER /\xe4|a||/\xe4|",
		"GET /" + strings.Repeat("x", 20000): "GET /" + strings.Repeat("x", 20000) + "|a||/" + strings.Repeat("x", 20000) + "|",
	} {
		c := dial()
		_, _ = io.WriteString(c, line+" HTTP/1.1\r\nHost: a\r\nx-y: 1\r\nAccept: b\r\nX-Y: 2\r\nConnection: close\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		body, _ := io.ReadAll(res.Body)
		if got, want := string(body), want+` map["Accept":["b"] "Connection":["close"] "X-Y":["1" "2"]]`; got != want {
			t.Errorf("%s\n got %s\nwant %s", line, got, want)
		}
	}
}

// TestHTTP2 is handed over, however it comes.
func TestHTTP2(t *testing.T) {
	turned := make(chan string, 1)
	dial, _ := start(t, script, func(o *Options) {
		o.HTTP2 = func(c *Turned) {
			b := make([]byte, len(preface))
			_, _ = io.ReadFull(c, b)
			_ = c.Close()
			turned <- string(b)
		}
	})
	for _, size := range []int{1, 3, 4, 100} {
		c := dial()
		for at := 0; at < len(preface); at += size {
			_, _ = io.WriteString(c, preface[at:min(len(preface), at+size)])
		}
		if got := <-turned; got != preface {
			t.Errorf("handed over: %q", got)
		}
	}
	if got, open := converse(t, dial(), "PUT /nothing HTTP/1.1\r\nHost: a\r\n\r\n", 1, 20, true); !strings.HasPrefix(got, "HTTP/1.1 200") || !open {
		t.Errorf("a PUT: %q", got)
	}
}

// TestDetach gives a connection away, with what was read of it.
func TestDetach(t *testing.T) {
	dial, s := start(t, func(w http.ResponseWriter, _ *http.Request) {
		c, early, err := w.(*Response).Detach()
		if err != nil {
			panic(err)
		}
		go func() {
			defer c.Close()
			_, _ = c.Write(early)
			_, _ = io.Copy(c, c)
		}()
		if _, _, err := w.(*Response).Detach(); !errors.Is(err, http.ErrHijacked) {
			panic("it was given away twice")
		}
	}, nil)
	c := dial()
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\nearly ")
	_, _ = io.WriteString(c, "late")
	got := make([]byte, len("early late"))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "early late" {
		t.Errorf("%q, %v", got, err)
	}
	if err := s.Shutdown(t.Context()); err != nil { // it is nobody's here
		t.Error(err)
	}
	_ = c.Close()
}

// TestLargeHeadersAreNotKept: the requests that come after one with many fields do not
// look through as many places.
func TestLargeHeadersAreNotKept(t *testing.T) {
	for fields, kept := range map[int]bool{http1.UsualFields: true, http1.UsualFields + 1: false} {
		r := &request{header: http1.Emptied(nil), answer: http1.Emptied(nil)}
		was := [2]http.Header{r.header, r.answer}
		for _, h := range was {
			for i := range fields {
				h[fmt.Sprint(i)] = nil
			}
		}
		r.clear()
		for i, h := range [2]http.Header{r.header, r.answer} {
			if h["x"] = nil; len(h) != 1 || (len(was[i]) == 1) != kept {
				t.Errorf("after %d fields: %v, %v", fields, h, was[i])
			}
		}
	}
}

// TestNothingIsServedOnceClosed has a server that ends close a connection between two
// requests that came together.
func TestNothingIsServedOnceClosed(t *testing.T) {
	s := NewServer(http.HandlerFunc(script), Options{Log: zap.NewNop()})
	near, far := net.Pipe()
	defer far.Close()
	c := s.newConn(near, new(Entrance), nil)
	c.waits(time.Now())
	c.in.Resume(near, []byte("GET / HTTP/1.1\r\n"), len("GET / HTTP/1.1\r\n"))
	c.cut(c.state.Load())
	if c.await() != came || c.work() {
		t.Error("the second request is served, whose answer nobody gets")
	}
}

// TestDetachLeavesNoDeadline gives a connection away whose deadlines, which are of the
// requests before, have passed.
func TestDetachLeavesNoDeadline(t *testing.T) {
	dial, _ := start(t, func(w http.ResponseWriter, _ *http.Request) {
		past := time.Unix(1, 0)
		_, _ = w.(*Response).SetWriteDeadline(past), w.(*Response).SetReadDeadline(past)
		c, early, err := w.(*Response).Detach()
		if err != nil {
			panic(err)
		}
		go func() {
			defer c.Close()
			_, _ = c.Write(early)
			_, _ = io.Copy(c, c)
		}()
	}, nil)
	c := dial()
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\nhello")
	_ = c.CloseWrite()
	if got, err := io.ReadAll(c); string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
}

// placeOf notes what its connection does.
type placeOf struct{ did chan string }

func (p placeOf) Busy() bool          { p.did <- "busy"; return true }
func (p placeOf) Idle(time.Time) bool { p.did <- "idle"; return true }
func (p placeOf) Leave()              { p.did <- "left" }

// TestPlaceOfOneThatIsGivenAway: it waits from then on, until the handler is done with it.
func TestPlaceOfOneThatIsGivenAway(t *testing.T) {
	p := placeOf{make(chan string, 10)}
	dial, _ := start(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(*Response).Detach()
		if err != nil {
			panic(err)
		}
		_ = c.Close()
	}, func(o *Options) { o.Enter = func(io.Closer, string) Place { return p } })
	_, _ = io.WriteString(dial(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	for _, want := range []string{"idle", "busy", "idle", "left"} { // the first is its beginning
		if got := <-p.did; got != want {
			t.Errorf("it is %s, want %s", got, want)
		}
	}
}

// TestLook tells who has left, by closing one half or both, though more was sent before.
func TestLook(t *testing.T) {
	for _, how := range []string{"half", "whole", "reset", "not"} {
		looks, looked := make(chan bool), make(chan bool)
		dial, _ := start(t, func(w http.ResponseWriter, r *http.Request) {
			w.(*Response).Look()
			if r.Context().Err() != nil {
				t.Error("it left before it did")
			}
			looks <- true
			<-looks
			for i := 0; i < 100 && r.Context().Err() == nil && how != "not"; i++ {
				w.(*Response).Look()
				time.Sleep(10 * time.Millisecond)
			}
			looked <- r.Context().Err() != nil
			if how != "not" {
				<-r.Context().Done()
			}
		}, nil)
		c := dial()
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\nmore")
		<-looks
		switch how {
		case "half":
			_ = c.CloseWrite()
		case "reset":
			_ = c.SetLinger(0)
			fallthrough
		case "whole":
			_ = c.Close()
		}
		looks <- true
		if got := <-looked; got != (how != "not") {
			t.Errorf("%s: it left: %t", how, got)
		}
	}
}

// TestPatience closes who takes too long, on time.
func TestPatience(t *testing.T) {
	const header, idle = 10 * time.Second, 40 * time.Second
	request := "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n"
	for name, tc := range map[string]struct {
		says []string
		want time.Duration
	}{
		"says nothing":        {nil, header},
		"half a head":         {[]string{request[:9]}, header + lingerSilence},
		"waits":               {[]string{request}, idle},
		"half a second head":  {[]string{request, request[:9]}, header + lingerSilence},
		"after a second one":  {[]string{request, request}, idle},
		"an empty line alone": {[]string{request, "\r\n"}, header},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewServer(http.HandlerFunc(script), Options{Header: header, Idle: idle, MaxHead: 1 << 10, Log: zap.NewNop()})
				l := testkit.NewPipes()
				var all sync.WaitGroup
				all.Go(func() { _ = s.Serve(l, Entrance{}) })
				c := piped(t, l)
				var from time.Time
				hears := make(chan time.Time)
				go func() {
					_, _ = io.Copy(io.Discard, c)
					hears <- time.Now()
				}()
				from = time.Now()
				for _, text := range tc.says {
					time.Sleep(5 * time.Second)
					from = time.Now()
					_, _ = io.WriteString(c, text)
				}
				if took := (<-hears).Sub(from); took < tc.want || took > tc.want+2*restAfter {
					t.Errorf("closed after %s, want %s", took, tc.want)
				}
				if err := s.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
				all.Wait()
			})
		})
	}
}

// TestShutdown waits for who is served, and for nobody else.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Minute)
			script(w, r)
		}), Options{Header: time.Hour, Idle: time.Hour, MaxHead: 1 << 10, Log: zap.NewNop()})
		l := testkit.NewPipes()
		var all sync.WaitGroup
		all.Go(func() { _ = s.Serve(l, Entrance{}) })
		silent, busy := piped(t, l), piped(t, l)
		heard := make(chan string, 2)
		for _, c := range []net.Conn{silent, busy} {
			all.Go(func() {
				b, _ := io.ReadAll(c)
				heard <- string(b)
			})
		}
		_, _ = io.WriteString(busy, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
		synctest.Wait()
		short, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.Shutdown(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after a second: %v", err)
		}
		if got := <-heard; got != "" {
			t.Errorf("who says nothing hears %q", got)
		}
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if got := <-heard; !strings.HasSuffix(got, "hello") {
			t.Errorf("who is served hears %q", got)
		}
		all.Wait()
	})
}

// piped connects in memory.
func piped(t *testing.T, l *testkit.Pipes) net.Conn {
	t.Helper()
	c, err := l.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestHeadWhileReading: the answer's head does not wait for who reads the body, as the
// client may wait for it.
func TestHeadWhileReading(t *testing.T) {
	dial, _ := start(t, func(w http.ResponseWriter, r *http.Request) {
		read, reading := make(chan string), make(chan bool)
		go func() {
			b := make([]byte, 3)
			_, _ = io.ReadFull(r.Body, b[:1])
			close(reading)
			_, _ = io.ReadFull(r.Body, b[1:])
			read <- string(b)
		}()
		<-reading
		w.Header().Set("Content-Length", "3")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, <-read)
	}, nil)
	c := dial()
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na")
	br := bufio.NewReader(c)
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, "bc")
	if b, err := io.ReadAll(res.Body); err != nil || string(b) != "abc" || !res.Close {
		t.Errorf("%q, %v, close %t", b, err, res.Close)
	}
}
