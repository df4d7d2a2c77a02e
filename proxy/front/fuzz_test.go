package front

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"go.uber.org/zap"
)

// FuzzConnection has a client say anything, in pieces of a size: each request that the handler
// saw has one answer, in order, what is no request has one more at the end, and package
// net/http, as a client, reads nothing else in what was written.
func FuzzConnection(f *testing.F) {
	for _, seed := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\nHEAD /b HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.0\r\n\r\n",
		"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n\r\nGET ?",
		"GET /unread HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab",
		"OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n",
	} {
		f.Add([]byte(seed), uint8(7))
	}
	f.Fuzz(func(t *testing.T, says []byte, piece uint8) {
		var methods []string
		s := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			methods = append(methods, r.Method)
			if r.URL.Path != "/unread" {
				_, _ = io.Copy(io.Discard, r.Body) // whatever comes of it
			}
			_, _ = fmt.Fprintf(w, "%d", len(methods))
		}), Options{MaxHead: 1 << 10, Log: zap.NewNop()})
		c := &played{says: says, piece: int(piece) + 1}
		x := s.newConn(c, &Entrance{}, nil)
		x.waits(time.Now())
		s.conns.Add(&x.Entry, x)
		x.serve()
		if !c.closed {
			t.Fatal("the connection is left open")
		}
		answers := bufio.NewReader(&c.heard)
		for i, method := range methods {
			checkAnswer(t, answers, method, fmt.Sprint(i+1))
		}
		if _, err := answers.Peek(1); err == nil {
			checkAnswer(t, answers, http.MethodGet, "")
		}
		if rest, _ := io.ReadAll(answers); len(rest) > 0 {
			t.Fatalf("%d requests; nobody asked for %q", len(methods), rest)
		}
	})
}

// checkAnswer reads an answer: of the handler with that body, or, if that is empty, of the
// server's own.
func checkAnswer(t *testing.T, from *bufio.Reader, method, want string) {
	t.Helper()
	res, err := http.ReadResponse(from, &http.Request{Method: method})
	for err == nil && res.StatusCode == http.StatusContinue {
		res, err = http.ReadResponse(from, &http.Request{Method: method})
	}
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		t.Fatal(err)
	case want == "" && (res.StatusCode < 400 || !res.Close):
		t.Fatalf("what is no request is answered %d", res.StatusCode)
	case want != "" && (res.StatusCode != http.StatusOK || method != http.MethodHead && string(body) != want):
		t.Fatalf("%d, %q, want 200, %q", res.StatusCode, body, want)
	}
}

// played is a client that says what it has to say in pieces, and then no more.
type played struct {
	net.Conn
	says   []byte
	piece  int
	heard  bytes.Buffer
	closed bool
}

func (c *played) Read(p []byte) (int, error) {
	if len(c.says) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.piece)], c.says)
	c.says = c.says[n:]
	return n, nil
}

func (c *played) Write(p []byte) (int, error) {
	if c.closed {
		return 0, errors.New("it is closed")
	}
	return c.heard.Write(p)
}

func (c *played) Close() error                     { c.closed = true; return nil }
func (c *played) CloseWrite() error                { return nil }
func (c *played) SetDeadline(time.Time) error      { return nil }
func (c *played) SetReadDeadline(time.Time) error  { return nil }
func (c *played) SetWriteDeadline(time.Time) error { return nil }
func (c *played) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }
