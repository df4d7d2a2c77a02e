package backend

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"tempomat/limiter/testkit"
	"tempomat/proxy/http1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a backend that plays a script on each connection.
type server struct {
	t     *testing.T
	l     net.Listener
	dial  Dial
	conns sync.WaitGroup
	mu    sync.Mutex
	count int // connections that were accepted
}

// serve plays the scripts, one for each connection that is accepted, the last one for
// all others.
func serve(t *testing.T, scripts ...func(c net.Conn, br *bufio.Reader)) *server {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, l, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}, scripts...)
}

// serveVirtual does the same in the memory of a synctest bubble, where nothing is late that
// is not meant to be.
func serveVirtual(t *testing.T, scripts ...func(c net.Conn, br *bufio.Reader)) *server {
	l := testkit.NewPipes()
	return serveOn(t, l, l.Dial, scripts...)
}

func serveOn(t *testing.T, l net.Listener, dial Dial, scripts ...func(c net.Conn, br *bufio.Reader)) *server {
	s := &server{t: t, l: l, dial: dial}
	var accepts sync.WaitGroup
	accepts.Go(func() {
		for i := 0; ; i++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.count++
			s.mu.Unlock()
			s.conns.Go(func() {
				defer c.Close()
				scripts[min(i, len(scripts)-1)](c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		accepts.Wait()
		s.conns.Wait()
	})
	return s
}

func (s *server) accepted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// pool asks the server.
func (s *server) pool(timeout time.Duration) *Pool {
	p := NewPool(s.dial, "nameless", timeout)
	p.idleFor = time.Hour // a test that is slow finds a connection where it left it
	s.t.Cleanup(p.Close)
	return p
}

// answers reads requests and says the same to each, until the client closes.
func answers(text string) func(net.Conn, *bufio.Reader) {
	return func(c net.Conn, br *bufio.Reader) {
		for {
			q, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, q.Body)
			_, _ = io.WriteString(c, text)
		}
	}
}

const hello = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

func line(name, value string) http1.Line {
	return http1.Line{Name: http1.Name{Written: name, Canonical: name}, Values: []string{value}}
}

func get() *Request { return &Request{Method: "GET", Target: "/", Host: "site"} }

// do asks and reads the whole answer.
func do(p *Pool, r *Request) (status int, body string, err error) {
	var call Call
	a, err := p.Do(&call, r)
	if err != nil {
		return 0, "", err
	}
	defer a.Close()
	b, err := io.ReadAll(a)
	return a.Status, string(b), err
}

func TestConnectionServesTheNextRequest(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		again bool
	}{
		"a length":       {hello, true},
		"nothing":        {"HTTP/1.1 204 No Content\r\n\r\n", true},
		"chunks":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", true},
		"one that says":  {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", false},
		"bytes too many": {hello + "HTTP/1.1 200 OK\r\n", false},
		"both lengths":   {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", false},
	} {
		s := serve(t, answers(c.text))
		p := s.pool(0)
		for range 3 {
			if _, _, err := do(p, get()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := s.accepted(); (got == 1) != c.again {
			t.Errorf("%s: %d connections for three requests", name, got)
		}
	}
}

// TestBodyThatNobodyLooksFor has a backend that answers a head, and takes a body that it
// did not look for as the next request.
func TestBodyThatNobodyLooksFor(t *testing.T) {
	s := serve(t, func(c net.Conn, br *bufio.Reader) {
		for {
			q, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			if q.Method == "PUT" {
				_, _ = io.Copy(io.Discard, q.Body)
			} else if q.ContentLength > 0 { // package http would read it, too
				br = bufio.NewReader(io.MultiReader(q.Body, br))
			}
			if q.URL.Path == "/hidden" {
				time.Sleep(10 * time.Millisecond) // the connection is another client's then
			}
			text := q.URL.Path
			if q.Method == "HEAD" {
				text = ""
			}
			status := "200 OK"
			if q.Method == "POST" {
				status = "403 Forbidden"
			}
			_, _ = fmt.Fprintf(c, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", status, len(q.URL.Path), text)
		}
	})
	p := s.pool(0)
	const hidden = "GET /hidden HTTP/1.1\r\nHost: site\r\n\r\n"
	for _, method := range []string{"GET", "HEAD", "DELETE", "OPTIONS", "TRACE", "POST", "PUT"} {
		for range 2 {
			q := get()
			q.Method, q.Body, q.Length = method, io.NopCloser(strings.NewReader(hidden)), int64(len(hidden))
			if _, _, err := do(p, q); err != nil {
				t.Errorf("%s: %v", method, err)
			}
			if _, got, err := do(p, get()); err != nil || got != "/" {
				t.Errorf("after %s another client gets %q, %v", method, got, err)
			}
		}
	}
}

// TestLengthIsToldAsItWasUnderstood: once, and not beside chunks.
func TestLengthIsToldAsItWasUnderstood(t *testing.T) {
	const chunked = "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
	for fields, want := range map[string]string{
		"Content-Length: 2\r\n" + chunked:                     "",
		"Content-Length: 9\r\n" + chunked:                     "",
		"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello": "5",
		"Content-Length: 5, 5\r\n\r\nhello":                   "5",
		"Content-Length: 5\r\n\r\nhello":                      "5",
		"Connection: close\r\n\r\nhello":                      "",
	} {
		s := serve(t, once("HTTP/1.1 200 OK\r\n"+fields, nil))
		a, err := s.pool(0).Do(&Call{}, get())
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(a.Header["Content-Length"], "|"); got != want {
			t.Errorf("%q: the length is told on as %q, want %q", fields, got, want)
		}
		if b, err := io.ReadAll(a); string(b) != "hello" || err != nil {
			t.Errorf("%q: %q, %v", fields, b, err)
		}
		_ = a.Close()
	}
}

// TestWhatWasNotReadIsNotReused: who closes an answer before its end gets rid of the
// connection.
func TestWhatWasNotReadIsNotReused(t *testing.T) {
	s := serve(t, answers(hello))
	p := s.pool(0)
	var call Call
	for range 2 {
		a, err := p.Do(&call, get())
		if err != nil {
			t.Fatal(err)
		}
		if n, err := a.Read(make([]byte, 2)); n != 2 || err != nil {
			t.Errorf("read %d, %v", n, err)
		}
		_ = a.Close()
		if _, err := a.Read(make([]byte, 2)); !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Errorf("read after Close: %v", err)
		}
	}
	if got := s.accepted(); got != 2 {
		t.Errorf("%d connections, want 2", got)
	}
}

// once answers one request, waits, and closes the connection.
func once(text string, wait <-chan struct{}) func(net.Conn, *bufio.Reader) {
	return func(c net.Conn, br *bufio.Reader) {
		if _, err := http.ReadRequest(br); err == nil {
			_, _ = io.WriteString(c, text)
		}
		if wait != nil {
			<-wait
		}
	}
}

// TestRepeats: a connection that the backend closes while it is used is none of the
// client's business, if the request may be repeated.
func TestRepeats(t *testing.T) {
	// What is closed before it is used is seen, so that it has to be closed as it reads
	// the second request.
	closes := func(c net.Conn, br *bufio.Reader) {
		once(hello, nil)(c, br)
		_, _ = http.ReadRequest(br)
	}
	body := func() io.ReadCloser { return io.NopCloser(strings.NewReader("abc")) }
	for name, c := range map[string]struct {
		r     *Request
		again bool
	}{
		"GET":             {get(), true},
		"DELETE":          {&Request{Method: "DELETE", Target: "/"}, true},
		"POST":            {&Request{Method: "POST", Target: "/"}, false},
		"PUT with a body": {&Request{Method: "PUT", Target: "/", Body: body(), Length: 3, Ready: true}, false},
	} {
		s := serve(t, closes, answers(hello))
		p := s.pool(0)
		if _, _, err := do(p, get()); err != nil {
			t.Fatal(err)
		}
		_, _, err := do(p, c.r)
		if (err == nil) != c.again {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRepeatsOnceAndNotAfterAnAnswerBegan: nothing is asked again that was answered in
// part, nor on a connection that is new.
func TestRepeatsOnceAndNotAfterAnAnswerBegan(t *testing.T) {
	part := func(c net.Conn, br *bufio.Reader) {
		once(hello, nil)(c, br)
		once("HTTP/1.1 20", nil)(c, br)
	}
	s := serve(t, part, answers(hello))
	p := s.pool(0)
	_, _, _ = do(p, get())
	if _, _, err := do(p, get()); !errors.Is(err, io.ErrUnexpectedEOF) || s.accepted() != 1 {
		t.Errorf("%v after %d connections", err, s.accepted())
	}
	s = serve(t, once("", nil))
	if _, _, err := do(s.pool(0), get()); err == nil || s.accepted() != 1 {
		t.Errorf("%v after %d connections, want an error after one", err, s.accepted())
	}
}

// TestAnAnswerThatIsNotUnderstoodIsOne: the backend has done what it was asked for.
func TestAnAnswerThatIsNotUnderstoodIsOne(t *testing.T) {
	for _, text := range []string{
		"no status\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
	} {
		s := serve(t, func(c net.Conn, br *bufio.Reader) {
			once(hello, nil)(c, br)
			once(text, nil)(c, br)
		}, answers(hello))
		p := s.pool(0)
		_, _, _ = do(p, get())
		if _, _, err := do(p, get()); !errors.Is(err, http1.ErrMalformed) || s.accepted() != 1 {
			t.Errorf("%q: %v after %d connections", text, err, s.accepted())
		}
	}
}

// TestLateIsNotAskedAgain: a backend that takes too long still works on the request,
// also where it came by a connection that was used before.
func TestLateIsNotAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		s := serveVirtual(t, func(c net.Conn, br *bufio.Reader) {
			once(hello, nil)(c, br)
			once("", end)(c, br)
		}, answers(hello))
		p := s.pool(200 * time.Millisecond)
		_, _, _ = do(p, get())
		if _, _, err := do(p, get()); !errors.Is(err, os.ErrDeadlineExceeded) || s.accepted() != 1 {
			t.Errorf("%v after %d connections", err, s.accepted())
		}
		close(end)
	})
}

// TestBodyThatIsNotThere: of a request that was not sent no answer is awaited.
func TestBodyThatIsNotThere(t *testing.T) {
	s := serve(t, answers(hello))
	r := &Request{Method: "POST", Target: "/", Length: 9, Ready: true, Body: io.NopCloser(strings.NewReader("abc"))}
	if _, _, err := do(s.pool(0), r); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

// TestClosedConnectionsAreNotUsed: a POST can not be repeated; it is not sent where the
// backend has closed.
func TestClosedConnectionsAreNotUsed(t *testing.T) {
	s := serve(t, once(hello, nil), answers(hello))
	p := s.pool(0)
	if _, _, err := do(p, get()); err != nil {
		t.Fatal(err)
	}
	for p.waits() && p.aliveOnes() > 0 {
		time.Sleep(time.Millisecond) // the end is on its way
	}
	if _, _, err := do(p, &Request{Method: "POST", Target: "/"}); err != nil {
		t.Error(err)
	}
}

func (p *Pool) waits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle) > 0
}

func (p *Pool) aliveOnes() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		if c.isAlive() {
			n++
		}
	}
	return n
}

func TestIdleOnesAreClosed(t *testing.T) {
	s := serve(t, answers(hello))
	p := s.pool(0)
	p.idleFor = idleFor
	if _, _, err := do(p, get()); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); p.waits(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			t.Fatal("a connection waits for ever")
		}
	}
	p.Close()
	if _, _, err := do(p, get()); err != nil || p.waits() {
		t.Errorf("%v; a pool that is closed keeps nothing", err)
	}
}

// TestTimeout: the head has to come in time after the request, the body may take its
// time.
func TestTimeout(t *testing.T) {
	const timeout = 200 * time.Millisecond
	for name, test := range map[string]func(*testing.T){
		"no answer": func(t *testing.T) {
			wait := make(chan struct{})
			s := serveVirtual(t, once("HTTP/1.1 100 Continue\r\n\r\n", wait))
			from := time.Now()
			_, _, err := do(s.pool(timeout), get())
			if late, ok := errors.AsType[net.Error](err); !ok || !late.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
			if took := time.Since(from); took != timeout {
				t.Errorf("it took %s, want %s", took, timeout)
			}
			close(wait)
		},
		"no second answer": func(t *testing.T) {
			s := serveVirtual(t, func(c net.Conn, br *bufio.Reader) {
				_, _ = http.ReadRequest(br)
				_, _ = io.WriteString(c, hello)
				_, _ = io.Copy(io.Discard, br)
			})
			p := s.pool(timeout)
			for _, pause := range []time.Duration{timeout / 2, 2 * timeout} { // its deadline is to come, or has passed
				if _, _, err := do(p, get()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(pause)
				from := time.Now()
				if _, _, err := do(p, get()); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error(err)
				}
				if took := time.Since(from); took != timeout {
					t.Errorf("after %s it took %s, want %s", pause, took, timeout)
				}
			}
		},
		"a slow body": func(t *testing.T) {
			s := serveVirtual(t, func(c net.Conn, br *bufio.Reader) {
				_, _ = http.ReadRequest(br)
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
				for range 2 {
					time.Sleep(3 * timeout / 2)
					_, _ = io.WriteString(c, "x")
				}
			})
			if _, body, err := do(s.pool(timeout), get()); err != nil || body != "xx" {
				t.Errorf("%q, %v", body, err)
			}
		},
		"a slow upload": func(t *testing.T) {
			r := &Request{Method: "POST", Target: "/", Length: -1, Body: slowly{2 * timeout, strings.NewReader("abc")}}
			s := serveVirtual(t, answers(hello))
			if _, _, err := do(s.pool(timeout), r); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}

// slowly is a body that comes after a while.
type slowly struct {
	after time.Duration
	io.Reader
}

func (s slowly) Read(p []byte) (int, error) {
	time.Sleep(s.after)
	return s.Reader.Read(p)
}

func (slowly) Close() error { return nil }

// TestIsOpening: the first connection of a request is being opened, and none else: not once it was there, nor after the
// answer, nor where a connection that was kept has ended and another is opened in its place.
func TestIsOpening(t *testing.T) {
	var call Call
	dialled, first := 0, true
	served := func(c net.Conn, br *bufio.Reader) {
		_, _ = http.ReadRequest(br)
		if call.IsOpening() {
			t.Error("the backend has the request")
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
		_, _ = http.ReadRequest(br) // and ends at the next one
	}
	s := serve(t, served, served, served)
	dial := func(ctx context.Context) (net.Conn, error) {
		if opening := call.IsOpening(); opening != first {
			t.Errorf("connection %d: it is being opened, and is the request's first: %t", dialled, opening)
		}
		dialled++
		return s.dial(ctx)
	}
	p := s.pool(0)
	for i := range 3 {
		if first = i != 1; i == 2 {
			p = s.pool(0) // that keeps none
		}
		p.dial = dial
		call.Begin()
		if call.IsOpening() {
			t.Error("nothing was asked")
		}
		a, err := p.Do(&call, get())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadAll(a)
		_ = a.Close()
		if call.Conn() != nil || call.IsOpening() {
			t.Error("it is over")
		}
	}
	if dialled != 3 {
		t.Errorf("%d connections", dialled)
	}
}

// TestCancel gives a request up at each stage of it.
func TestCancel(t *testing.T) {
	for _, stage := range []string{"dialling", "before the head", "in the body"} {
		call, reached, end := &Call{}, make(chan struct{}), make(chan struct{})
		text := map[string]string{"in the body": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"}[stage]
		s := serve(t, func(c net.Conn, br *bufio.Reader) {
			_, _ = http.ReadRequest(br)
			_, _ = io.WriteString(c, text)
			close(reached)
			<-end
		})
		p := s.pool(0)
		if stage == "dialling" {
			p.dial = func(ctx context.Context) (net.Conn, error) {
				close(reached)
				<-ctx.Done()
				return nil, ctx.Err()
			}
		}
		go func() {
			<-reached
			call.Cancel()
		}()
		a, err := p.Do(call, get())
		if err == nil {
			_, err = io.ReadAll(a)
			_ = a.Close()
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", stage, err)
		}
		if _, err := p.Do(call, get()); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, the next request before Begin: %v", stage, err)
		}
		close(end)
	}
}

// hints collects what comes before the answer.
type hints []string

func (h *hints) Hint(status int, header http.Header) {
	*h = append(*h, fmt.Sprint(status, header.Get("Link")))
}

func TestHints(t *testing.T) {
	s := serve(t, answers("HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"+hello))
	var got hints
	r := get()
	r.Hints = &got
	if _, body, err := do(s.pool(0), r); err != nil || body != "hello" || fmt.Sprint(got) != "[103a 102]" {
		t.Errorf("%q, hints %v, %v", body, got, err)
	}
	s = serve(t, answers(strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", mostHints+1)+hello))
	if _, _, err := do(s.pool(0), get()); !errors.Is(err, errUnasked) {
		t.Errorf("endless hints: %v", err)
	}
}

// TestExpect: a body that the backend is to ask for waits until it does, does not come
// if it answers otherwise, and comes if it says nothing.
func TestExpect(t *testing.T) {
	for name, c := range map[string]struct {
		first, want string
		sent        bool
	}{
		"asked for":    {"HTTP/1.1 100 Continue\r\n\r\n", "200abc", true},
		"refused":      {"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n", "413", false},
		"not answered": {"", "200abc", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bodies := make(chan string, 1)
				s := serveVirtual(t, func(cn net.Conn, br *bufio.Reader) {
					q, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					_, _ = io.WriteString(cn, c.first)
					b, _ := io.ReadAll(q.Body)
					bodies <- string(b)
					if c.sent {
						_, _ = fmt.Fprintf(cn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(b), b)
					}
				})
				r := &Request{
					Method: "POST", Target: "/", Fields: http1.List{line("Expect", "100-continue")}, Length: 3,
					Body: io.NopCloser(strings.NewReader("abc")),
				}
				status, body, err := do(s.pool(0), r)
				if got := strings.TrimSpace(fmt.Sprint(status, body)); err != nil || strings.ReplaceAll(got, " ", "") != c.want {
					t.Errorf("%q, %v", got, err)
				}
				if got := <-bodies; (got == "abc") != c.sent {
					t.Errorf("the backend read %q", got)
				}
			})
		})
	}
}

// TestEarlyAnswer: an answer that comes before the body has is passed on; the
// connection is closed then, as the rest of the body would be a request.
func TestEarlyAnswer(t *testing.T) {
	s := serve(t, func(c net.Conn, br *bufio.Reader) {
		if _, err := http.ReadRequest(br); err == nil {
			_, _ = io.WriteString(c, hello)
			_, _ = io.Copy(io.Discard, br)
		}
	})
	p := s.pool(0)
	pr, pw := io.Pipe()
	if _, body, err := do(p, &Request{Method: "POST", Target: "/", Length: -1, Body: pr}); err != nil || body != "hello" {
		t.Fatalf("%q, %v", body, err)
	}
	for { // the rest comes to its end
		if _, err := pw.Write([]byte("more")); err != nil {
			break
		}
	}
	if p.waits() {
		t.Error("the connection is kept")
	}
}

// TestBrokenUpload: a client that does not send what it announced leaves a backend that
// is told so, and whose answer is read.
func TestBrokenUpload(t *testing.T) {
	s := serve(t, func(c net.Conn, br *bufio.Reader) {
		q, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		b, err := io.ReadAll(q.Body)
		_, _ = fmt.Fprintf(c, "HTTP/1.1 400 Bad\r\n\r\n%s, %v", b, err)
	})
	r := &Request{Method: "POST", Target: "/", Length: 9, Body: io.NopCloser(strings.NewReader("abc"))}
	if status, body, err := do(s.pool(0), r); err != nil || status != 400 || body != "abc, unexpected EOF" {
		t.Errorf("%d %q, %v", status, body, err)
	}
}

func TestTrailers(t *testing.T) {
	s := serve(t, answers("HTTP/1.1 200 OK\r\nTrailer: A\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nA: 1\r\nb: 2\r\n\r\n"))
	a, err := s.pool(0).Do(&Call{}, get())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if len(a.Trailer) != 1 {
		t.Errorf("%v is announced", a.Trailer)
	}
	if _, err := io.ReadAll(a); err != nil || a.Trailer.Get("A") != "1" || a.Trailer.Get("B") != "2" || len(a.Trailer) != 2 {
		t.Errorf("%v came, %v", a.Trailer, err)
	}
}

func TestTunnel(t *testing.T) {
	s := serve(t, func(c net.Conn, br *bufio.Reader) {
		_, _ = http.ReadRequest(br)
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nat once")
		line, _ := br.ReadString('\n')
		_, _ = io.WriteString(c, " and "+line)
	})
	p := s.pool(time.Minute)
	a, err := p.Do(&Call{}, get())
	if err != nil {
		t.Fatal(err)
	}
	tunnel := a.Tunnel()
	if _, err := io.WriteString(tunnel, "later\n"); err != nil {
		t.Error(err)
	}
	if all, err := io.ReadAll(tunnel); err != nil || string(all) != "at once and later\n" {
		t.Errorf("%q, %v", all, err)
	}
	_ = a.Close()
	_ = tunnel.Close()
	if p.waits() {
		t.Error("a connection that speaks another protocol is kept")
	}
}

// BenchmarkDo asks over a real connection.
func BenchmarkDo(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		memory := make([]byte, 4096)
		for {
			if _, err := c.Read(memory); err != nil {
				return
			}
			_, _ = io.WriteString(c, hello)
		}
	}()
	p := NewPool(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}, "site", time.Minute)
	defer p.Close()
	var call Call
	r, piece := get(), make([]byte, 4096)
	r.Fields = http1.List{line("Accept", "*/*"), line("User-Agent", "x")}
	b.ReportAllocs()
	for b.Loop() {
		a, err := p.Do(&call, r)
		if err != nil {
			b.Fatal(err)
		}
		if n, err := a.Read(piece); n != 5 || !errors.Is(err, io.EOF) {
			b.Fatal(n, err)
		}
	}
}
