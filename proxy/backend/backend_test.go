package backend

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"tempomat/proxy/http1"
	"testing"
	"time"

	"go.uber.org/goleak"
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
		if got := strings.Join(a.Fields.Values("Content-Length"), "|"); got != want {
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

// TestACrowdKeepsNothing: while connections wait to be accepted, one that has been answered does not
// hold a worker for the next request.
func TestACrowdKeepsNothing(t *testing.T) {
	s := serve(t, answers(hello))
	p := s.pool(0)
	ask := func(crowd, keeps bool) {
		t.Helper()
		p.Crowd(crowd)
		if crowd && p.waits() {
			t.Error("what was kept before is kept on")
		}
		if _, _, err := do(p, get()); err != nil {
			t.Fatal(err)
		}
		if p.waits() != keeps {
			t.Errorf("crowd %t: kept: %t", crowd, !keeps)
		}
	}
	ask(false, true)
	ask(true, false)
	ask(true, false)
	ask(false, true)
}

// hints collects what comes before the answer.
type hints []string

func (h *hints) Hint(status int, fields http1.Fields) {
	*h = append(*h, fmt.Sprint(status, fields.Get("Link")))
}

func TestHints(t *testing.T) {
	s := serve(t, answers("HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"+hello))
	var got hints
	r := get()
	r.Hints = &got
	if _, body, err := do(s.pool(0), r); err != nil || body != "hello" || fmt.Sprint(got) != "[103a 102]" {
		t.Errorf("%q, hints %v, %v", body, got, err)
	}
	const hint = "HTTP/1.1 102 Processing\r\n\r\n"
	s, got = serve(t, answers(strings.Repeat(hint, mostHints)+hello)), nil
	if _, body, err := do(s.pool(0), r); err != nil || body != "hello" || len(got) != mostHints {
		t.Errorf("as many as may be: %q, %d hints, %v", body, len(got), err)
	}
	s = serve(t, answers(strings.Repeat(hint, mostHints+1)+hello))
	if _, _, err := do(s.pool(0), get()); !errors.Is(err, errUnasked) {
		t.Errorf("endless hints: %v", err)
	}
}

func TestTrailers(t *testing.T) {
	s := serve(t, answers("HTTP/1.1 200 OK\r\nTrailer: A\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nA: 1\r\nb: 2\r\n\r\n"))
	a, err := s.pool(0).Do(&Call{}, get())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if n := a.Fields.Announced(); len(n) != 1 {
		t.Errorf("%v is announced", n)
	}
	if _, err := io.ReadAll(a); err != nil || a.Trailer().Get("A") != "1" || a.Trailer().Get("B") != "2" || len(a.Trailer()) != 2 {
		t.Errorf("%v came, %v", a.Trailer(), err)
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
