package backend

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/internal/testkit"
	"tempomat/proxy/http1"
)

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

// TestRepeats: if the backend closes a connection during a request that may be repeated, the
// client doesn't notice.
func TestRepeats(t *testing.T) {
	// The pool would notice a connection that was closed earlier, so the backend closes it when it reads the
	// second request.
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
		warm(t, p)
		_, _, err := do(p, c.r)
		testkit.Same(t, c.again, err == nil, "%s: repeated (%v)", name, err)
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
