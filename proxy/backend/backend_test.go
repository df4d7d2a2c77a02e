package backend

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"go.uber.org/goleak"

	"tempomat/internal/testkit"
	"tempomat/proxy/http1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
		plain := serve(t, answers(c.text))
		secure, overTLS := serveTLS(t, answers(c.text))
		for s, p := range map[*server]*Pool{plain: plain.pool(0), secure: overTLS} {
			for range 3 {
				if _, _, err := do(p, get()); err != nil {
					t.Errorf("%s, TLS %t: %v", name, s == secure, err)
				}
			}
			if got := s.accepted(); (got == 1) != c.again {
				t.Errorf("%s, TLS %t: %d connections for three requests", name, s == secure, got)
			}
		}
	}
}

// TestBodyThatNobodyLooksFor: a backend answers after the head, and then reads the body as the next
// request.
func TestBodyThatNobodyLooksFor(t *testing.T) {
	s := serve(t, func(c net.Conn, br *bufio.Reader) {
		for {
			q, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			if q.Method == "PUT" {
				_, _ = io.Copy(io.Discard, q.Body)
			} else if q.ContentLength > 0 { // package http would also read the body
				br = bufio.NewReader(io.MultiReader(q.Body, br))
			}
			if q.URL.Path == "/hidden" {
				time.Sleep(10 * time.Millisecond) // gives another client time to use the connection
			}
			text := q.URL.Path
			if q.Method == "HEAD" {
				text = ""
			}
			status := "200 OK"
			switch q.Method {
			case "POST":
				status = "403 Forbidden"
			case "PATCH":
				status = "307 Temporary Redirect"
			}
			_, _ = fmt.Fprintf(c, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", status, len(q.URL.Path), text)
		}
	})
	p := s.pool(0)
	const hidden = "GET /hidden HTTP/1.1\r\nHost: site\r\n\r\n"
	for _, method := range []string{"GET", "HEAD", "DELETE", "OPTIONS", "TRACE", "POST", "PATCH", "PUT"} {
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

// TestLengthIsToldAsItWasUnderstood: no length is announced together with chunks.
func TestLengthIsToldAsItWasUnderstood(t *testing.T) {
	const chunked = "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
	for fields, want := range map[string]string{
		"Content-Length: 2\r\n" + chunked:                     "",
		"Content-Length: 9\r\n" + chunked:                     "",
		"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello": "5",
		"Content-Length: 5\r\n\r\nhello":                      "5",
		"Connection: close\r\n\r\nhello":                      "",
	} {
		s := serve(t, once("HTTP/1.1 200 OK\r\n"+fields, nil))
		a, err := s.pool(0).Do(&Call{}, get())
		testkit.Must(t, err)
		testkit.Same(t, want, a.Fields.Get("Content-Length"), "%q: the length is told on as", fields)
		if b, err := io.ReadAll(a); string(b) != "hello" || err != nil {
			t.Errorf("%q: %q, %v", fields, b, err)
		}
		_ = a.Close()
	}
}

// TestWhatWasNotReadIsNotReused: closing an answer before its end closes the connection.
func TestWhatWasNotReadIsNotReused(t *testing.T) {
	s := serve(t, answers(hello))
	p := s.pool(0)
	var call Call
	for range 2 {
		a, err := p.Do(&call, get())
		testkit.Must(t, err)
		if n, err := a.Read(make([]byte, 2)); n != 2 || err != nil {
			t.Errorf("read %d, %v", n, err)
		}
		_ = a.Close()
		if _, err := a.Read(make([]byte, 2)); !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Errorf("read after Close: %v", err)
		}
	}
	testkit.Same(t, 2, s.accepted(), "connections")
}

// TestBodyThatIsNotThere: if a request can't be sent, the pool doesn't wait for an answer.
func TestBodyThatIsNotThere(t *testing.T) {
	s := serve(t, answers(hello))
	r := &Request{Method: "POST", Target: "/", Length: 9, Ready: true, Body: io.NopCloser(strings.NewReader("abc"))}
	if _, _, err := do(s.pool(0), r); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

// TestClosedConnectionsAreNotUsed: a POST can't be repeated, so it isn't sent on a connection that
// the backend has closed.
func TestClosedConnectionsAreNotUsed(t *testing.T) {
	_, overTLS := serveTLS(t, once(hello, nil), answers(hello))
	for name, p := range map[string]*Pool{"plain": serve(t, once(hello, nil), answers(hello)).pool(0), "TLS": overTLS} {
		warm(t, p)
		testkit.Eventually(t, name+": it is seen that the connection is closed", func() bool { return p.aliveOnes() == 0 })
		if _, _, err := do(p, &Request{Method: "POST", Target: "/"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
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
		if c.isSilent() {
			n++
		}
	}
	return n
}

func TestIdleOnesAreClosed(t *testing.T) {
	s := serve(t, answers(hello))
	p := s.pool(0)
	p.idleFor = idleFor
	warm(t, p)
	testkit.Eventually(t, "the connection is closed", func() bool { return !p.waits() })
	p.Close()
	if _, _, err := do(p, get()); err != nil || p.waits() {
		t.Errorf("%v; a pool that is closed keeps nothing", err)
	}
}

// TestACrowdKeepsNothing: while connections wait to be accepted, no idle connection holds a
// worker.
func TestACrowdKeepsNothing(t *testing.T) {
	s := serve(t, answers(hello))
	p := s.pool(0)
	ask := func(crowd, keeps bool) {
		t.Helper()
		p.Crowd(crowd)
		if crowd && p.waits() {
			t.Error("what was kept before is kept on")
		}
		warm(t, p)
		testkit.Same(t, keeps, p.waits(), "crowd %t: kept", crowd)
	}
	ask(false, true)
	ask(true, false)
	ask(true, false)
	ask(false, true)
}

// hints counts the interim answers.
type hints int

func (h *hints) Hint(int, http1.Fields) { *h++ }

// TestHintsAreBounded: a backend may send only a limited number of interim answers.
func TestHintsAreBounded(t *testing.T) {
	const hint = "HTTP/1.1 102 Processing\r\n\r\n"
	var got hints
	r := get()
	r.Hints = &got
	s := serve(t, answers(strings.Repeat(hint, mostHints)+hello))
	if _, body, err := do(s.pool(0), r); err != nil || body != "hello" || got != mostHints {
		t.Errorf("as many as may be: %q, %d hints, %v", body, got, err)
	}
	s = serve(t, answers(strings.Repeat(hint, mostHints+1)+hello))
	if _, _, err := do(s.pool(0), get()); !errors.Is(err, errUnasked) {
		t.Errorf("endless hints: %v", err)
	}
}

// TestIdleCallKeepsNoConnection: between requests, a client's Call keeps no connection in memory.
func TestIdleCallKeepsNoConnection(t *testing.T) {
	var call Call
	call.Begin()
	conn := usedBy(&call)
	runtime.GC()
	if conn.Value() != nil {
		t.Error("a connection that was let go is still there")
	}
	runtime.KeepAlive(&call)
}

//go:noinline
func usedBy(call *Call) weak.Pointer[Conn] {
	c := newConn(nil)
	call.use(c)
	call.use(nil)
	return weak.Make(c)
}

// serveTLS is serve and pool for a backend with TLS.
func serveTLS(t *testing.T, scripts ...func(net.Conn, *bufio.Reader)) (*server, *Pool) {
	known := httptest.NewTLSServer(nil) // only its certificate is used
	known.Close()
	roots := x509.NewCertPool()
	roots.AddCert(known.Certificate())
	secure := make([]func(net.Conn, *bufio.Reader), len(scripts))
	for i, script := range scripts {
		secure[i] = func(c net.Conn, _ *bufio.Reader) {
			s := tls.Server(c, &tls.Config{Certificates: known.TLS.Certificates})
			defer s.Close()
			script(s, bufio.NewReader(s))
		}
	}
	s := serve(t, secure...)
	d := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: "example.com"}}
	p := NewPool(func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "tcp", s.l.Addr().String()) }, "nameless", 0)
	p.idleFor = time.Hour // as in pool
	t.Cleanup(p.Close)
	return s, p
}

// TestTLSWithSomethingLeftIsNotUsed: bytes after an answer in the same record stay in the
// connection, and would become the next answer.
func TestTLSWithSomethingLeftIsNotUsed(t *testing.T) {
	long := strings.Repeat("x", 40000)
	_, p := serveTLS(t, answers(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(long), long)+hello))
	for range 3 {
		if _, body, err := do(p, get()); err != nil || body != long {
			t.Errorf("%.10q, %v", body, err)
		}
	}
}
