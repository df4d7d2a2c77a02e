package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// answer is an answer as it was read whole.
type answer struct {
	Status    int
	Header    http.Header
	Framing   Framing
	Body      string
	Trailer   http.Header
	KeepAlive bool
	Left      string // what was not part of it
}

// read reads an answer, and what is left after it.
func read(src io.Reader, method string) (answer, error) { return readInto(64, src, method) }

// readInto does so with so much memory.
func readInto(size int, src io.Reader, method string) (a answer, err error) {
	var b Buffer
	b.Reset(src, make([]byte, size))
	var r Response
	if err := b.ReadResponse(&r, method); err != nil {
		return a, err
	}
	a = answer{Status: r.Status, Header: headerOf(r.Fields), Framing: r.Framing, KeepAlive: r.KeepAlive}
	var body []byte
	switch r.Framing {
	case Empty:
	case Length:
		if body, err = io.ReadAll(io.LimitReader(&b, r.Length)); err == nil && int64(len(body)) < r.Length {
			err = io.ErrUnexpectedEOF
		}
	case Chunked:
		if r.Length >= 0 {
			return a, errors.New("chunks have a length")
		}
		var c ChunkedBody
		c.Reset(&b)
		body, err = io.ReadAll(&c)
		if len(c.Trailer) > 0 {
			a.Trailer = headerOf(c.Trailer)
		}
	case UntilEnd:
		body, err = io.ReadAll(&b)
	}
	a.Body = string(body)
	if err == nil {
		left, _ := io.ReadAll(&b)
		a.Left = string(left)
	}
	return a, err
}

// lines makes a message of lines, the last of which is the body.
func lines(l ...string) string { return strings.Join(l, "\r\n") }

func TestReadResponse(t *testing.T) {
	for name, c := range map[string]struct {
		text, method string
		want         answer
	}{
		"a length": {lines("HTTP/1.1 200 OK", "content-LENGTH: 3", "", "abcd"), "GET", answer{
			Status: 200, Header: http.Header{"Content-Length": {"3"}}, Framing: Length, Body: "abc", KeepAlive: true, Left: "d"}},
		"no reason": {lines("HTTP/1.1 404", "Content-Length:0", "", ""), "GET", answer{
			Status: 404, Header: http.Header{"Content-Length": {"0"}}, KeepAlive: true}},
		"a length told twice alike": {lines("HTTP/1.1 200 OK", "Content-Length: 1, 1", "Content-Length: 1", "", "a"), "GET", answer{
			Status: 200, Header: http.Header{"Content-Length": {"1, 1", "1"}}, Framing: Length, Body: "a", KeepAlive: true}},
		"chunks": {lines("HTTP/1.1 200 OK", "Transfer-Encoding: Chunked", "", "3;x=\"y\"", "abc", "A", "0123456789", "0", "X-Sum: 1", "", "left"), "GET", answer{
			Status: 200, Header: http.Header{"Transfer-Encoding": {"Chunked"}}, Framing: Chunked, Body: "abc0123456789",
			Trailer: http.Header{"X-Sum": {"1"}}, KeepAlive: true, Left: "left"}},
		"chunks and a length": {lines("HTTP/1.1 200 OK", "Content-Length: 1", "Transfer-Encoding: chunked", "", "1", "a", "0", "", ""), "GET", answer{
			Status: 200, Header: http.Header{"Content-Length": {"1"}, "Transfer-Encoding": {"chunked"}}, Framing: Chunked, Body: "a"}},
		"chunks of HTTP/1.0": {lines("HTTP/1.0 200 OK", "Connection: keep-alive", "Transfer-Encoding: chunked", "", "1", "a", "0", "", ""), "GET", answer{
			Status: 200, Header: http.Header{"Connection": {"keep-alive"}, "Transfer-Encoding": {"chunked"}}, Framing: Chunked, Body: "a"}},
		"one that closes and goes on": {lines("HTTP/1.1 200 OK", "Connection: close", "Connection: keep-alive", "Content-Length: 1", "", "a"), "GET", answer{
			Status: 200, Header: http.Header{"Connection": {"close", "keep-alive"}, "Content-Length": {"1"}}, Framing: Length, Body: "a"}},
		"until the end": {lines("HTTP/1.1 200 OK", "A:  b \t", "", "all of it"), "GET", answer{
			Status: 200, Header: http.Header{"A": {"b"}}, Framing: UntilEnd, Body: "all of it"}},
		"HTTP/1.0": {lines("HTTP/1.0 200 OK", "Content-Length: 1", "", "a"), "GET", answer{
			Status: 200, Header: http.Header{"Content-Length": {"1"}}, Framing: Length, Body: "a"}},
		"HTTP/1.0 that goes on": {lines("HTTP/1.0 200 OK", "Connection: x, Keep-Alive", "Content-Length: 1", "", "a"), "GET", answer{
			Status: 200, Header: http.Header{"Connection": {"x, Keep-Alive"}, "Content-Length": {"1"}}, Framing: Length, Body: "a", KeepAlive: true}},
		"one that closes": {lines("HTTP/1.1 200 OK", "Connection: close", "Content-Length: 1", "", "a"), "GET", answer{
			Status: 200, Header: http.Header{"Connection": {"close"}, "Content-Length": {"1"}}, Framing: Length, Body: "a"}},
		"to a HEAD": {lines("HTTP/1.1 200 OK", "Content-Length: 5", "", "left"), "HEAD", answer{
			Status: 200, Header: http.Header{"Content-Length": {"5"}}, KeepAlive: true, Left: "left"}},
		"without content": {lines("HTTP/1.1 204 No Content", "", "left"), "GET", answer{
			Status: 204, Header: http.Header{}, KeepAlive: true, Left: "left"}},
		"without content, though it tells a length": {lines("HTTP/1.1 204 No Content", "Content-Length: 5", "", ""), "GET", answer{
			Status: 204, Header: http.Header{"Content-Length": {"5"}}}},
		"without content, though in chunks": {lines("HTTP/1.1 204 No Content", "Transfer-Encoding: chunked", "", ""), "GET", answer{
			Status: 204, Header: http.Header{"Transfer-Encoding": {"chunked"}}}},
		"without content, of length 0": {lines("HTTP/1.1 204 No Content", "Content-Length: 0", "", ""), "GET", answer{
			Status: 204, Header: http.Header{"Content-Length": {"0"}}, KeepAlive: true}},
		"go on, of length 0": {lines("HTTP/1.1 100 Continue", "Content-Length: 0", "", ""), "POST", answer{
			Status: 100, Header: http.Header{"Content-Length": {"0"}}, KeepAlive: true}},
		"not modified": {lines("HTTP/1.1 304 Not Modified", "Content-Length: 5", "", "left"), "GET", answer{
			Status: 304, Header: http.Header{"Content-Length": {"5"}}, KeepAlive: true, Left: "left"}},
		"a field that goes on": {lines("HTTP/1.1 204 OK", "A: b", " c", "\td", "E: f", "", ""), "GET", answer{
			Status: 204, Header: http.Header{"A": {"b   c   d"}, "E": {"f"}}, KeepAlive: true}},
		"lines that end in LF alone": {"HTTP/1.1 200 OK\nA: b\nContent-Length: 1\n\na", "GET", answer{
			Status: 200, Header: http.Header{"A": {"b"}, "Content-Length": {"1"}}, Framing: Length, Body: "a", KeepAlive: true}},
		"HEAD, without a length": {lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "left"), "HEAD", answer{
			Status: 200, Header: http.Header{"Transfer-Encoding": {"chunked"}}, KeepAlive: true, Left: "left"}},
		"HEAD, both lengths": {lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "Content-Length: 0", "", ""), "HEAD", answer{
			Status: 200, Header: http.Header{"Transfer-Encoding": {"chunked"}, "Content-Length": {"0"}}}},
		"HEAD, HTTP/1.0": {lines("HTTP/1.0 200 OK", "", ""), "HEAD", answer{Status: 200, Header: http.Header{}}},
		"chunks and a length of 0": {lines("HTTP/1.1 200 OK", "Content-Length: 0", "Transfer-Encoding: chunked", "", "1", "a", "0", "", ""), "GET", answer{
			Status: 200, Header: http.Header{"Content-Length": {"0"}, "Transfer-Encoding": {"chunked"}}, Framing: Chunked, Body: "a"}},
		"trailers that get longer": {lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "0", "A: b", "Longer: than that", "", ""), "GET", answer{
			Status: 200, Header: http.Header{"Transfer-Encoding": {"chunked"}}, Framing: Chunked, Trailer: http.Header{"A": {"b"}, "Longer": {"than that"}}, KeepAlive: true}},
		"HTTP/1.9, status 999": {lines("HTTP/1.9 999 OK", "Content-Length: 0", "", ""), "GET", answer{
			Status: 999, Header: http.Header{"Content-Length": {"0"}}, KeepAlive: true}},
		"go on": {lines("HTTP/1.1 100 Continue", "", "left"), "POST", answer{Status: 100, Header: http.Header{}, KeepAlive: true, Left: "left"}},
		"a name as long as that of the length": {lines("HTTP/1.1 204 OK", "Accept-Charset: x", "", ""), "GET", answer{
			Status: 204, Header: http.Header{"Accept-Charset": {"x"}}, KeepAlive: true}},
		"several of a name": {lines("HTTP/1.1 204 OK", "Set-Cookie: a", "set-cookie: b", "Set-Cookie: c", "x: y", "", ""), "GET", answer{
			Status: 204, Header: http.Header{"Set-Cookie": {"a", "b", "c"}, "X": {"y"}}, KeepAlive: true}},
	} {
		t.Run(name, func(t *testing.T) {
			for how, src := range map[string]io.Reader{
				"at once":      strings.NewReader(c.text),
				"byte by byte": iotest.OneByteReader(strings.NewReader(c.text)),
				"the end told": iotest.DataErrReader(strings.NewReader(c.text)),
			} {
				got, err := read(src, c.method)
				if err != nil {
					t.Errorf("%s: %v", how, err)
				}
				for _, values := range got.Header { // how much space is none of anybody's business
					for i := range values {
						values[i] = strings.ReplaceAll(strings.ReplaceAll(values[i], "    ", "   "), "\t", " ")
					}
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", how, diff)
				}
			}
		})
	}
}

// TestCutOff cuts an answer off after each byte: it is never taken for complete.
func TestCutOff(t *testing.T) {
	for _, text := range []string{
		lines("HTTP/1.1 200 OK", "Content-Length: 3", "", "abc"),
		lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "3", "abc", "0", "A: b", "", ""),
	} {
		for n := range len(text) {
			_, err := read(strings.NewReader(text[:n]), "GET")
			if !errors.Is(err, io.ErrUnexpectedEOF) && (n > 0 || !errors.Is(err, io.EOF)) {
				t.Errorf("%q: %v, want an unexpected end", text[:n], err)
			}
		}
	}
}

// FuzzReadResponse compares with package net/http: nothing is understood that it
// refuses, but for what table lenient says, and what both understand they understand
// alike.
func FuzzReadResponse(f *testing.F) {
	for _, text := range refused() {
		if len(text) < 1000 {
			f.Add([]byte(text), false)
		}
	}
	f.Add([]byte(lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "3", "abc", "0", "A: b", "", "")), false)
	f.Add([]byte(lines("HTTP/1.0 200 OK", "Connection: keep-alive", "Content-Length: 3", "", "abc")), true)
	f.Fuzz(func(t *testing.T, text []byte, head bool) {
		q := &http.Request{Method: http.MethodGet}
		if head {
			q.Method = http.MethodHead
		}
		got, err := read(bytes.NewReader(text), q.Method)
		slow, slowErr := read(iotest.OneByteReader(bytes.NewReader(text)), q.Method)
		if (err == nil) != (slowErr == nil) || err == nil && !cmp.Equal(got, slow) {
			t.Fatalf("at once: %+v, %v\nbyte by byte: %+v, %v", got, err, slow, slowErr)
		}
		if err != nil || lenient(text, got) {
			return
		}
		br := bufio.NewReader(bytes.NewReader(text))
		res, err := http.ReadResponse(br, q)
		if err != nil {
			t.Fatalf("net/http refuses it: %v", err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || string(body) != got.Body || res.StatusCode != got.Status {
			t.Fatalf("net/http reads %d %q, %v; we %d %q", res.StatusCode, body, err, got.Status, got.Body)
		}
		if left, _ := io.ReadAll(br); got.Framing != UntilEnd && string(left) != got.Left {
			t.Fatalf("after it there is %q for net/http, %q for us", left, got.Left)
		}
	})
}

// lenient tells of what net/http refuses, or understands otherwise, and why we do not.
func lenient(text []byte, a answer) bool {
	switch {
	case bytes.HasPrefix(text, []byte("HTTP/1.0")) && a.Framing == Chunked:
		return true // it shows the chunks' sizes in the page; a server that chunks means it
	case bytes.HasPrefix(text, []byte("HTTP/1.")) && text[7] > '1':
		return true // it knows of HTTP/1.0 and 1.1 alone; minor versions are compatible (RFC 9110, 2.5)
	case a.Framing == Empty && a.Header["Transfer-Encoding"] != nil:
		return true // there is no body that a coding could matter to
	}
	return strings.Contains(a.Header.Get("Content-Length"), ",") // a list of lengths that are alike (RFC 9110, 8.6)
}

// TestBounds: what is as long as allowed is read, and one byte more is not, however
// much memory there is at first.
func TestBounds(t *testing.T) {
	for most := 2; most < 20; most++ {
		for size := 1; size < 30; size++ {
			for more := range 2 {
				text := strings.Repeat("x", most+more)
				var b Buffer
				b.Reset(iotest.OneByteReader(strings.NewReader(text+"\r\n")), make([]byte, size))
				if line, err := b.line(most); (err == nil) != (more == 0) || err == nil && string(line) != text {
					t.Errorf("a line of %d bytes of %d: %q, %v", most+more, most, line, err)
				}
				text = text[2:] + "\n\n"
				b.Reset(iotest.OneByteReader(strings.NewReader(text)), make([]byte, size))
				if head, err := b.head(most); most > 2 && ((err == nil) != (more == 0) || err == nil && string(head) != text) {
					t.Errorf("a head of %d bytes of %d: %q, %v", most+more, most, head, err)
				}
			}
		}
	}
	var b Buffer
	b.Reset(strings.NewReader(strings.Repeat("x", 2*maxHead)), make([]byte, 64))
	if _, err := b.head(maxHead); !errors.Is(err, errTooLong) || len(b.data) > maxHead+1024 {
		t.Errorf("a head without an end: %v, %d bytes of memory", err, len(b.data))
	}
}

// TestMoreAtTheBound: more is read of what may be longer, into new memory if need be, and
// nothing of what is as long as allowed.
func TestMoreAtTheBound(t *testing.T) {
	var b Buffer
	b.Resume(strings.NewReader("efgh"), []byte("abcd"), 4)
	if err := b.More(); err != nil || string(b.Peek(100)) != "abcdefgh" {
		t.Errorf("%q, %v", b.Peek(100), err)
	}
	b.Resume(strings.NewReader("efgh"), []byte("abcd"), 4)
	if err := b.fill(4); !errors.Is(err, errTooLong) || b.Buffered() != 4 {
		t.Errorf("%q, %v", b.Peek(100), err)
	}
	broken := errors.New("broken")
	b.Reset(io.MultiReader(strings.NewReader("a: b\n"), iotest.ErrReader(broken)), make([]byte, 64))
	if _, err := b.head(5); !errors.Is(err, errTooLong) {
		t.Errorf("a head that has no end where it must: %v", err)
	}
}

// TestTwoAnswers are read from one buffer, as after a 100.
func TestTwoAnswers(t *testing.T) {
	var b Buffer
	b.Reset(strings.NewReader(strings.Repeat(lines("HTTP/1.1 100 Continue", "", ""), 3)), make([]byte, 512))
	for i := range 3 {
		var r Response
		if err := b.ReadResponse(&r, "GET"); err != nil || r.Status != 100 {
			t.Errorf("answer %d: %d, %v", i, r.Status, err)
		}
	}
	if n := b.Buffered(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

func TestNumbers(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "9": 9, "a": 10, "f": 15, "A": 10, "F": 15, "10": 16, "fedcba987654321": 0xfedcba987654321,
		"7fffffffffffffff": -1, "1 \t;x": 1, "1;x=\t\"y z\"": 1, "1;\x01": -1, "1;\x7f": -1, "1x": -1, "": -1, "g": -1, "/": -1, ":": -1, "@": -1, "`": -1,
	} {
		if n, err := parseSize([]byte(text)); (err == nil) != (want >= 0) || err == nil && n != want {
			t.Errorf("a chunk of %q bytes: %d, %v", text, n, err)
		}
	}
	for text, want := range map[string]int64{
		"0": 0, "9": 9, "999999999999999999": 999999999999999999, "1000000000000000000": -1, "/": -1, ":": -1, " 7 , 7 ": 7,
	} {
		if n, ok := parseLength(text); ok != (want >= 0) || ok && n != want {
			t.Errorf("a length of %q: %d, %t", text, n, ok)
		}
	}
	for c := range 256 {
		want := c < 0x80 && strings.ContainsRune("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", rune(c))
		if isTokenByte(byte(c)) != want {
			t.Errorf("%q is part of a token: %t", rune(c), !want)
		}
	}
	for _, text := range []string{"a: b", "a: b\n", "a: b\n c\n\n"} {
		if _, err := appendFields(nil, text); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func headerOf(fields Fields) http.Header {
	h := http.Header{}
	for _, f := range fields {
		h[f.Key] = append(h[f.Key], f.Value)
	}
	return h
}

func TestReason(t *testing.T) {
	for line, want := range map[string]string{
		"HTTP/1.1 200": "", "HTTP/1.1 200 ": "", "HTTP/1.1 200 Fine": "Fine", "HTTP/1.0 404 No\tway \xe4": "No\tway \xe4",
		"HTTP/1.1 200 a\x00b": "", "HTTP/1.1 200 a\x7f": "", "HTTP/1.1 200 a\rb": "",
	} {
		var b Buffer
		var r Response
		b.Reset(strings.NewReader(lines(line, "Content-Length: 0", "", "")), make([]byte, 64))
		if err := b.ReadResponse(&r, "GET"); err != nil || r.Reason != want {
			t.Errorf("%q: %q, %v", line, r.Reason, err)
		}
	}
}
