package front

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"tempomat/internal/testkit"
	"tempomat/proxy/connlimit"
	"tempomat/proxy/http1"
)

// ask sends a text and returns the status and the body of the answer.
func ask(t *testing.T, c net.Conn, br *bufio.Reader, text string) (status int, body string) {
	t.Helper()
	go func() { _, _ = io.WriteString(c, text) }() // the server may refuse the text before its end
	res, err := http.ReadResponse(br, nil)
	testkit.Must(t, err)
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return res.StatusCode, string(b)
}

// TestWhatIsNoRequestIsForgotten: a malformed head leaves no trace in the memory of the next
// request.
func TestWhatIsNoRequestIsForgotten(t *testing.T) {
	w := &Response{exchange: newExchange()}
	w.asked = make(http1.Fields, 0, 8)
	w.head.Fields = w.asked
	var in http1.Buffer
	in.Resume(strings.NewReader("GET / HTTP/1.1\r\nHost: a\r\nA: "+strings.Repeat("b", 1000)+"\r\nnothing\r\n\r\n"), nil, 0)
	if err := in.ReadRequest(&w.head, 4<<10); err == nil {
		t.Fatal("it is a request")
	}
	w.clear()
	for _, f := range w.asked[:cap(w.asked)] {
		testkit.Same(t, http1.Field{}, f, "what is kept")
	}
}

// TestLongHeads sends more long heads at a time than one address may.
func TestLongHeads(t *testing.T) {
	dial, s := start(t, script, nil)
	s.long.Bound(connlimit.OnePart) // one for each address
	const body = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n"
	long := func(n int) string { return body + "A: " + strings.Repeat("a", n) + "\r\n\r\n" }
	const want = `POST 3 "abc" <nil> map[]`

	slow := dial()
	_, _ = io.WriteString(slow, long(20_000)[:15_000])
	for s.long.Held() == 0 { // until the long head has begun
		time.Sleep(time.Millisecond)
	}
	c := dial()
	br := bufio.NewReader(c)
	for _, n := range []int{1, inSize - len(body) - len("A: \r\n\r\n") - 1} { // the longest head that isn't long
		if status, got := ask(t, c, br, long(n)+"abc"); status != http.StatusOK || got != want {
			t.Errorf("of %d bytes beside a long one: %d %q", n, status, got)
		}
	}
	if status, _ := ask(t, c, br, long(inSize)+"abc"); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a second long one: %d", status)
	}
	_, _ = io.WriteString(slow, long(20_000)[15_000:])
	br = bufio.NewReader(slow)
	if status, got := ask(t, slow, br, "abc"); status != http.StatusOK || got != want {
		t.Errorf("the first one: %d %q", status, got)
	}
	for _, n := range []int{inSize, 60_000, inSize - len(body) - len("A: \r\n\r\n")} {
		if status, got := ask(t, slow, br, long(n)+"abc"+body+"\r\nabc"); status != http.StatusOK || got != want {
			t.Errorf("of %d bytes, after it: %d %q", n, status, got)
		}
		if status, got := ask(t, slow, br, ""); status != http.StatusOK || got != want {
			t.Errorf("the next one: %d %q", status, got)
		}
		testkit.Same(t, 0, s.long.Held(), "long ones after one of %d bytes", n)
	}
	if status, _ := ask(t, slow, br, long(70_000)); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("too long: %d", status)
	}
	for s.long.Held() != 0 { // the server no longer holds the head while it drains the client
		time.Sleep(time.Millisecond)
	}
}

// TestLongHeadWithABody: the beginning of the body arrives together with the end of a long head. The head keeps no place
// while the request is served.
func TestLongHeadWithABody(t *testing.T) {
	dial, _ := start(t, func(w http.ResponseWriter, r *http.Request) {
		held := w.(*Response).conn.server.long.Held()
		n, err := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, held, n, err)
	}, nil)
	for _, size := range []int{9_000, 17_000, 30_000, 60_000} {
		c := dial()
		head := fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\nA: %s\r\n\r\n", 2*inSize, strings.Repeat("a", size))
		_, got := ask(t, c, bufio.NewReader(c), head+strings.Repeat("b", 2*inSize))
		testkit.Same(t, fmt.Sprint(0, 2*inSize, nil), got, "places held and the body after a head of %d bytes", size)
	}
}

// TestLongHeadsInPieces sends long heads whose first pieces fill the usual memory except for one
// byte.
func TestLongHeadsInPieces(t *testing.T) {
	_, s := start(t, script, nil)
	const want = `POST 3 "abc" <nil> map[]`
	head := "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nA: " + strings.Repeat("a", 20_000) + "\r\n\r\nabc"
	for name, pieces := range map[string][]string{
		"in pieces":            {head[:inSize-1], head[inSize-1:]},
		"behind an empty line": {"\n" + head[:inSize-1], head[inSize-1:]},
	} {
		ours, theirs := net.Pipe() // a pipe delivers each write as one read
		s.accept(theirs, &Entrance{})
		written := make(chan struct{})
		go func() {
			defer close(written)
			for _, p := range pieces {
				_, _ = io.WriteString(ours, p) // the server may refuse the text before its end
			}
		}()
		if status, got := ask(t, ours, bufio.NewReader(ours), ""); status != http.StatusOK || got != want {
			t.Errorf("%s: %d %q", name, status, got)
		}
		_ = ours.Close()
		<-written
	}
}

// FuzzConnection lets a client send any bytes in pieces. Each request that the handler saw gets one answer, in
// order. Bytes that aren't a request get one answer at the end. Package net/http, as a client, reads the same
// answers.
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
		s := newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			methods = append(methods, r.Method)
			if r.URL.Path != "/unread" {
				_, _ = io.Copy(io.Discard, r.Body) // the body may be malformed
			}
			_, _ = fmt.Fprintf(w, "%d", len(methods))
		}), Options{MaxHead: 1 << 10, Log: zap.NewNop()})
		c := &played{says: says, piece: int(piece) + 1}
		x := s.entering(c, &Entrance{})
		x.waits(time.Now())
		s.conns.Add(&x.RosterEntry, x)
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

// checkAnswer reads an answer: the handler's, with that body, or the server's own if the body is
// empty.
func checkAnswer(t *testing.T, from *bufio.Reader, method, want string) {
	t.Helper()
	res, err := http.ReadResponse(from, &http.Request{Method: method})
	for err == nil && res.StatusCode == http.StatusContinue {
		res, err = http.ReadResponse(from, &http.Request{Method: method})
	}
	testkit.Must(t, err)
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

// played is a client that sends its pieces and then nothing more.
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
