package front

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"tempomat/proxy/subscriber"
)

// ask sends a text and returns the status and the body of the answer.
func ask(t *testing.T, c net.Conn, br *bufio.Reader, text string) (status int, body string) {
	t.Helper()
	go func() { _, _ = io.WriteString(c, text) }() // the server may refuse it half way
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return res.StatusCode, string(b)
}

// TestLongHeads has one address send more long heads at a time than there is room for.
func TestLongHeads(t *testing.T) {
	dial, s := start(t, script, nil)
	s.long.Bound(subscriber.OnePart) // one for each address
	const body = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n"
	long := func(n int) string { return body + "A: " + strings.Repeat("a", n) + "\r\n\r\n" }
	const want = `POST 3 "abc" <nil> map[]`

	slow := dial()
	_, _ = io.WriteString(slow, long(20_000)[:15_000])
	for s.long.Held() == 0 { // until it is there
		time.Sleep(time.Millisecond)
	}
	c := dial()
	br := bufio.NewReader(c)
	for _, n := range []int{1, inSize - len(body) - len("A: \r\n\r\n") - 1} { // the longest that is short
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
		if s.long.Held() != 0 {
			t.Errorf("after one of %d bytes there are %d long ones", n, s.long.Held())
		}
	}
	if status, _ := ask(t, slow, br, long(70_000)); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("too long: %d", status)
	}
	for s.long.Held() != 0 { // it lingers without
		time.Sleep(time.Millisecond)
	}
}

// TestLongHeadsInPieces has long heads come so that all but the last byte of the usual memory is
// full: of one in pieces after the first of them, of one behind an empty line in any case.
func TestLongHeadsInPieces(t *testing.T) {
	_, s := start(t, script, nil)
	const want = `POST 3 "abc" <nil> map[]`
	head := "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nA: " + strings.Repeat("a", 20_000) + "\r\n\r\nabc"
	for name, pieces := range map[string][]string{
		"in pieces":            {head[:inSize-1], head[inSize-1:]},
		"behind an empty line": {"\n" + head[:inSize-1], head[inSize-1:]},
	} {
		ours, theirs := net.Pipe() // what is written at once is read at once
		s.accept(theirs, &Entrance{})
		written := make(chan struct{})
		go func() {
			defer close(written)
			for _, p := range pieces {
				_, _ = io.WriteString(ours, p) // the server may refuse it half way
			}
		}()
		if status, got := ask(t, ours, bufio.NewReader(ours), ""); status != http.StatusOK || got != want {
			t.Errorf("%s: %d %q", name, status, got)
		}
		_ = ours.Close()
		<-written
	}
}
