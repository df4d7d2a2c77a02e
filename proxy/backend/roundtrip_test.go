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

	"tempomat/internal/testkit"
	"tempomat/proxy/http1"
)

// TestTimeout: the timeout applies to the head of the answer, after the request was sent, and not to the
// body.
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
			testkit.Same(t, timeout, time.Since(from), "it took")
			close(wait)
		},
		"no second answer": func(t *testing.T) {
			s := serveVirtual(t, func(c net.Conn, br *bufio.Reader) {
				_, _ = http.ReadRequest(br)
				_, _ = io.WriteString(c, hello)
				_, _ = io.Copy(io.Discard, br)
			})
			p := s.pool(timeout)
			for _, pause := range []time.Duration{timeout / 2, 2 * timeout} { // the earlier deadline is in the future, or has passed
				warm(t, p)
				time.Sleep(pause)
				from := time.Now()
				if _, _, err := do(p, get()); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error(err)
				}
				testkit.Same(t, timeout, time.Since(from), "after %s it took", pause)
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
			r := &Request{Method: "POST", Target: "/", Length: -1, Body: slowly{2 * timeout, strings.NewReader("abc")}, Trailer: func() http1.Fields { return nil }}
			s := serveVirtual(t, answers(hello))
			p := s.pool(timeout)
			if _, _, err := do(p, r); err != nil {
				t.Error(err)
			}
			time.Sleep(2 * timeout)
			warm(t, p)
			testkit.Same(t, 1, s.accepted(), "connections used")
		},
		"an unread upload": func(t *testing.T) {
			wait := make(chan struct{})
			s := serveVirtual(t, once("", wait))
			from := time.Now()
			if _, _, err := do(s.pool(timeout), large()); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
			testkit.Same(t, timeout, time.Since(from).Truncate(time.Millisecond), "it took")
			close(wait)
		},
		"an upload that is read steadily": func(t *testing.T) {
			s := serveVirtual(t, func(c net.Conn, br *bufio.Reader) {
				q, err := http.ReadRequest(br)
				for piece := make([]byte, uploadPiece); err == nil; _, err = io.ReadFull(q.Body, piece) {
					time.Sleep(timeout * 3 / 4)
				}
				_, _ = io.WriteString(c, hello)
			})
			if _, body, err := do(s.pool(timeout), large()); err != nil || body != "hello" {
				t.Errorf("%q, %v", body, err)
			}
		},
		"an upload that is read after the head": func(t *testing.T) {
			s := serveVirtual(t, func(c net.Conn, br *bufio.Reader) {
				q, _ := http.ReadRequest(br)
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n")
				time.Sleep(2 * timeout)
				n, _ := io.Copy(io.Discard, q.Body)
				_, _ = fmt.Fprint(c, n)
			})
			if _, body, err := do(s.pool(timeout), large()); err != nil || body != "1048576" {
				t.Errorf("%q, %v", body, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}

// TestLateBodiesCostNoDeadline: requests over one connection share a deadline, even if the bodies of their answers come
// after the heads.
func TestLateBodiesCostNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveVirtual(t, func(c net.Conn, br *bufio.Reader) {
			for _, err := http.ReadRequest(br); err == nil; _, err = http.ReadRequest(br) {
				_, _ = io.WriteString(c, strings.TrimSuffix(hello, "hello"))
				time.Sleep(time.Millisecond)
				_, _ = io.WriteString(c, "hello")
			}
		})
		p, n := s.pool(time.Minute), 0
		p.dial = func(ctx context.Context) (net.Conn, error) {
			c, err := s.dial(ctx)
			return counted{c, &n}, err
		}
		for range 3 {
			warm(t, p)
		}
		testkit.Same(t, 1, n, "deadlines were set")
	})
}

// counted counts the read deadlines of a connection.
type counted struct {
	net.Conn
	deadlines *int
}

func (c counted) SetReadDeadline(at time.Time) error {
	*c.deadlines++
	return c.Conn.SetReadDeadline(at)
}

func large() *Request {
	return &Request{Method: "POST", Target: "/", Length: 1 << 20, Body: io.NopCloser(strings.NewReader(strings.Repeat("x", 1<<20)))}
}

// slowly is a body that arrives after a delay.
type slowly struct {
	after time.Duration
	io.Reader
}

func (s slowly) Read(p []byte) (int, error) {
	time.Sleep(s.after)
	return s.Reader.Read(p)
}

func (slowly) Close() error { return nil }

// TestIsOpening: IsOpening is true only while the first connection of a request is opened. It is
// false after the answer, and when a new connection replaces one that ended.
func TestIsOpening(t *testing.T) {
	var call Call
	dialled, first := 0, true
	served := func(c net.Conn, br *bufio.Reader) {
		_, _ = http.ReadRequest(br)
		if call.IsOpening() {
			t.Error("the backend has the request")
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
		_, _ = http.ReadRequest(br) // ends the connection at the second request
	}
	s := serve(t, served, served, served)
	dial := func(ctx context.Context) (net.Conn, error) {
		testkit.Same(t, first, call.IsOpening(), "connection %d: it is being opened, and is the request's first", dialled)
		dialled++
		return s.dial(ctx)
	}
	p := s.pool(0)
	for i := range 3 {
		if first = i != 1; i == 2 {
			p = s.pool(0) // a pool that keeps no connection
		}
		p.dial = dial
		call.Begin()
		if call.IsOpening() {
			t.Error("nothing was asked")
		}
		a, err := p.Do(&call, get())
		testkit.Must(t, err)
		_, _ = io.ReadAll(a)
		_ = a.Close()
		if call.Conn() != nil || call.IsOpening() {
			t.Error("it is over")
		}
	}
	testkit.Same(t, 3, dialled, "connections")
}

// TestCancel cancels a request at each stage.
func TestCancel(t *testing.T) {
	for _, stage := range []string{"dialling", "before the head", "in the body"} {
		call, reached, end := &Call{}, make(chan struct{}), make(chan struct{})
		reach := sync.OnceFunc(func() { close(reached) })
		text := map[string]string{"in the body": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"}[stage]
		s := serve(t, func(c net.Conn, br *bufio.Reader) {
			_, _ = http.ReadRequest(br)
			_, _ = io.WriteString(c, text)
			reach()
			<-end
		})
		p := s.pool(0)
		if stage == "dialling" {
			p.dial = func(ctx context.Context) (net.Conn, error) {
				reach()
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

// TestRepeats: if the backend closes a connection during a request that may be repeated, or sends the rest of the
// earlier answer, the client doesn't notice.
func TestRepeats(t *testing.T) {
	// The pool would notice a connection that was closed earlier, so the backend closes it when it reads the
	// second request.
	closes := func(c net.Conn, br *bufio.Reader) {
		once(hello, nil)(c, br)
		_, _ = http.ReadRequest(br)
	}
	tooLong := func(c net.Conn, br *bufio.Reader) { // the earlier answer is longer than its length, and its end is late
		once(hello, nil)(c, br)
		once("<!-- end -->\n"+hello, nil)(c, br)
	}
	body := func() io.ReadCloser { return io.NopCloser(strings.NewReader("abc")) }
	for name, c := range map[string]struct {
		r     func() *Request
		again bool
	}{
		"GET":             {get, true},
		"DELETE":          {func() *Request { return &Request{Method: "DELETE", Target: "/"} }, true},
		"POST":            {func() *Request { return &Request{Method: "POST", Target: "/"} }, false},
		"PUT with a body": {func() *Request { return &Request{Method: "PUT", Target: "/", Body: body(), Length: 3, Ready: true} }, false},
	} {
		for _, first := range []func(net.Conn, *bufio.Reader){closes, tooLong} {
			s := serve(t, first, answers(hello))
			p := s.pool(0)
			warm(t, p)
			_, _, err := do(p, c.r())
			testkit.Same(t, c.again, err == nil, "%s: repeated (%v)", name, err)
		}
	}
}

// TestRepeatsOnceAndNotAfterAnAnswerBegan: a request is not repeated after a part of its answer has arrived, or
// if its connection was new.
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

// TestAnAnswerThatIsNotUnderstoodIsOne: after a malformed answer the request isn't repeated,
// because the backend has executed it.
func TestAnAnswerThatIsNotUnderstoodIsOne(t *testing.T) {
	for _, text := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
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

// TestLateIsNotAskedAgain: after a timeout the request isn't repeated, because the backend may
// still be working on it.
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

// TestExpect: a body waits until the backend asks for it. The body is dropped if the backend sends its answer
// instead, and sent if the backend stays silent.
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
					Method: "POST", Target: "/", Fields: fields("Expect", "100-continue"), Length: 3,
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

// TestEarlyAnswer: an answer that comes before the end of the body is passed on. The connection is then closed,
// because the backend would read the rest of the body as a request.
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
	for { // until the rest of the body has been sent
		if _, err := pw.Write([]byte("more")); err != nil {
			break
		}
	}
	if p.waits() {
		t.Error("the connection is kept")
	}
}

// TestBrokenUpload: if the client doesn't send the whole body, the backend sees that the body ends, and its
// answer is read.
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
