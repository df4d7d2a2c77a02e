package http1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"tempomat/internal/testkit"
)

// answer is an answer that was completely read.
type answer struct {
	Status    int
	Fields    Fields
	Framing   Framing
	Body      string
	Trailer   Fields
	KeepAlive bool
	Left      string // the bytes after it
}

// String describes an answer in the form that TestReadResponse uses.
func (a answer) String() string {
	var s strings.Builder
	fmt.Fprint(&s, a.Status)
	for _, f := range a.Fields {
		fmt.Fprintf(&s, " [%s|%s]", f.Key, f.Value)
	}
	fmt.Fprintf(&s, " %s %q", [...]string{"empty", "length", "chunked", "until the end"}[a.Framing], a.Body)
	for _, f := range a.Trailer {
		fmt.Fprintf(&s, " trailer[%s|%s]", f.Key, f.Value)
	}
	if a.KeepAlive {
		s.WriteString(" stays")
	}
	if a.Left != "" {
		fmt.Fprintf(&s, " left %q", a.Left)
	}
	return s.String()
}

// read reads an answer, and the bytes after it.
func read(src io.Reader, method string) (answer, error) { return readInto(64, src, method) }

// readInto is read with memory of a given size.
func readInto(size int, src io.Reader, method string) (a answer, err error) {
	var b Buffer
	b.Resume(src, make([]byte, size), 0)
	var r Response
	if err := b.ReadResponse(&r, method); err != nil {
		return a, err
	}
	a = answer{Status: r.Status, Fields: r.Fields, Framing: r.Framing, KeepAlive: r.KeepAlive}
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
		a.Trailer = c.Trailer
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

// lines joins the lines of a message, the last of which is the body.
func lines(l ...string) string { return strings.Join(l, "\r\n") }

func TestReadResponse(t *testing.T) {
	for name, c := range map[string]struct {
		text, method string
		want         string
	}{
		"a length":                  {lines("HTTP/1.1 200 OK", "content-LENGTH: 3", "", "abcd"), "GET", `200 [Content-Length|3] length "abc" stays left "d"`},
		"no reason":                 {lines("HTTP/1.1 404", "Content-Length:0", "", ""), "GET", `404 [Content-Length|0] empty "" stays`},
		"a length told twice alike": {lines("HTTP/1.1 200 OK", "Content-Length: 1", "Content-Length: 1", "", "a"), "GET", `200 [Content-Length|1] [Content-Length|1] length "a" stays`},
		"chunks": {lines("HTTP/1.1 200 OK", "Transfer-Encoding: Chunked", "", "3;x=\"y\"", "abc", "A", "0123456789", "0", "X-Sum: 1", "", "left"), "GET",
			`200 [Transfer-Encoding|Chunked] chunked "abc0123456789" trailer[X-Sum|1] stays left "left"`},
		"chunks and a length": {lines("HTTP/1.1 200 OK", "Content-Length: 1", "Transfer-Encoding: chunked", "", "1", "a", "0", "", ""), "GET",
			`200 [Content-Length|1] [Transfer-Encoding|chunked] chunked "a"`},
		"chunks of HTTP/1.0": {lines("HTTP/1.0 200 OK", "Connection: keep-alive", "Transfer-Encoding: chunked", "", "1", "a", "0", "", ""), "GET",
			`200 [Connection|keep-alive] [Transfer-Encoding|chunked] chunked "a"`},
		"one that closes and goes on": {lines("HTTP/1.1 200 OK", "Connection: close", "Connection: keep-alive", "Content-Length: 1", "", "a"), "GET",
			`200 [Connection|close] [Connection|keep-alive] [Content-Length|1] length "a"`},
		"until the end": {lines("HTTP/1.1 200 OK", "A:  b \t", "", "all of it"), "GET", `200 [A|b] until the end "all of it"`},
		"HTTP/1.0":      {lines("HTTP/1.0 200 OK", "Content-Length: 1", "", "a"), "GET", `200 [Content-Length|1] length "a"`},
		"HTTP/1.0 that goes on": {lines("HTTP/1.0 200 OK", "Connection: x, Keep-Alive", "Content-Length: 1", "", "a"), "GET",
			`200 [Connection|x, Keep-Alive] [Content-Length|1] length "a" stays`},
		"one that closes": {lines("HTTP/1.1 200 OK", "Connection: close", "Content-Length: 1", "", "a"), "GET", `200 [Connection|close] [Content-Length|1] length "a"`},
		"to a HEAD":       {lines("HTTP/1.1 200 OK", "Content-Length: 5", "", "left"), "HEAD", `200 [Content-Length|5] empty "" stays left "left"`},
		"without content": {lines("HTTP/1.1 204 No Content", "", "left"), "GET", `204 empty "" stays left "left"`},
		"without content, though it tells a length": {lines("HTTP/1.1 204 No Content", "Content-Length: 5", "", ""), "GET", `204 [Content-Length|5] empty ""`},
		"without content, though in chunks":         {lines("HTTP/1.1 204 No Content", "Transfer-Encoding: chunked", "", ""), "GET", `204 [Transfer-Encoding|chunked] empty ""`},
		"without content, of length 0":              {lines("HTTP/1.1 204 No Content", "Content-Length: 0", "", ""), "GET", `204 [Content-Length|0] empty "" stays`},
		"go on, of length 0":                        {lines("HTTP/1.1 100 Continue", "Content-Length: 0", "", ""), "POST", `100 [Content-Length|0] empty "" stays`},
		"not modified":                              {lines("HTTP/1.1 304 Not Modified", "Content-Length: 5", "", "left"), "GET", `304 [Content-Length|5] empty "" stays left "left"`},
		"lines that end in LF alone":                {"HTTP/1.1 200 OK\nA: b\nContent-Length: 1\n\na", "GET", `200 [A|b] [Content-Length|1] length "a" stays`},
		"HEAD, without a length":                    {lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "left"), "HEAD", `200 [Transfer-Encoding|chunked] empty "" stays left "left"`},
		"HEAD, both lengths": {lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "Content-Length: 0", "", ""), "HEAD",
			`200 [Transfer-Encoding|chunked] [Content-Length|0] empty ""`},
		"HEAD, HTTP/1.0": {lines("HTTP/1.0 200 OK", "", ""), "HEAD", `200 empty ""`},
		"chunks and a length of 0": {lines("HTTP/1.1 200 OK", "Content-Length: 0", "Transfer-Encoding: chunked", "", "1", "a", "0", "", ""), "GET",
			`200 [Content-Length|0] [Transfer-Encoding|chunked] chunked "a"`},
		"trailers that get longer": {lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "0", "A: b", "Longer: than that", "", ""), "GET",
			`200 [Transfer-Encoding|chunked] chunked "" trailer[A|b] trailer[Longer|than that] stays`},
		"HTTP/1.9, status 999":                 {lines("HTTP/1.9 999 OK", "Content-Length: 0", "", ""), "GET", `999 [Content-Length|0] empty "" stays`},
		"go on":                                {lines("HTTP/1.1 100 Continue", "", "left"), "POST", `100 empty "" stays left "left"`},
		"a name as long as that of the length": {lines("HTTP/1.1 204 OK", "Accept-Charset: x", "", ""), "GET", `204 [Accept-Charset|x] empty "" stays`},
		"several of a name": {lines("HTTP/1.1 204 OK", "Set-Cookie: a", "set-cookie: b", "Set-Cookie: c", "x: y", "", ""), "GET",
			`204 [Set-Cookie|a] [Set-Cookie|b] [Set-Cookie|c] [X|y] empty "" stays`},
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
				testkit.Same(t, c.want, got.String(), "%s", how)
			}
		})
	}
}

// TestCutOff cuts off an answer after each of its bytes. The rest must never look complete.
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

// FuzzReadResponse compares this package with net/http. Both must understand an answer in the same way. This
// package rejects every answer that net/http rejects, except for the cases of lenient.
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

// lenient reports whether net/http rejects the answer or understands it differently for a reason that doesn't
// matter here.
func lenient(text []byte, a answer) bool {
	switch {
	case bytes.HasPrefix(text, []byte("HTTP/1.0")) && a.Framing == Chunked:
		return true // net/http shows the sizes of the chunks as content, but a server that sends chunks means chunks
	case bytes.HasPrefix(text, []byte("HTTP/1.")) && text[7] > '1':
		return true // net/http accepts only HTTP/1.0 and 1.1, but minor versions are compatible (RFC 9110, 2.5)
	}
	return a.Framing == Empty && a.Fields.Has("Transfer-Encoding") // without a body, the coding doesn't matter
}

// TestBounds: a line or head of exactly the allowed length is accepted, and one that is a byte longer is
// rejected, however much memory there is at first.
func TestBounds(t *testing.T) {
	for most := 2; most < 20; most++ {
		for size := 1; size < 30; size++ {
			for more := range 2 {
				text := strings.Repeat("x", most+more)
				var b Buffer
				b.Resume(iotest.OneByteReader(strings.NewReader(text+"\r\n")), make([]byte, size), 0)
				if line, err := b.line(most); (err == nil) != (more == 0) || err == nil && string(line) != text {
					t.Errorf("a line of %d bytes of %d: %q, %v", most+more, most, line, err)
				}
				text = text[2:] + "\n\n"
				b.Resume(iotest.OneByteReader(strings.NewReader(text)), make([]byte, size), 0)
				if head, err := b.head(most); most > 2 && ((err == nil) != (more == 0) || err == nil && string(head) != text) {
					t.Errorf("a head of %d bytes of %d: %q, %v", most+more, most, head, err)
				}
			}
		}
	}
	var b Buffer
	b.Resume(strings.NewReader(strings.Repeat("x", 2*maxHead)), make([]byte, 64), 0)
	if _, err := b.head(maxHead); !errors.Is(err, ErrTooLong) || len(b.data) > maxHead+1024 {
		t.Errorf("a head without an end: %v, %d bytes of memory", err, len(b.data))
	}
}

// TestMoreAtTheBound: at the bound, More reads into new memory, and fill fails.
func TestMoreAtTheBound(t *testing.T) {
	var b Buffer
	b.Resume(strings.NewReader("efgh"), []byte("abcd"), 4)
	if err := b.More(); err != nil || string(b.Peek(100)) != "abcdefgh" {
		t.Errorf("%q, %v", b.Peek(100), err)
	}
	b.Resume(strings.NewReader("efgh"), []byte("abcd"), 4)
	if err := b.fill(4); !errors.Is(err, ErrTooLong) || b.Buffered() != 4 {
		t.Errorf("%q, %v", b.Peek(100), err)
	}
	broken := errors.New("broken")
	b.Resume(io.MultiReader(strings.NewReader("a: b\n"), iotest.ErrReader(broken)), make([]byte, 64), 0)
	if _, err := b.head(5); !errors.Is(err, ErrTooLong) {
		t.Errorf("a head that has no end where it must: %v", err)
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
		"0": 0, "9": 9, "999999999999999999": 999999999999999999, "1000000000000000000": -1, "/": -1, ":": -1, "7, 7": -1,
	} {
		if n, ok := parseDigits(text); ok != (want >= 0) || ok && n != want {
			t.Errorf("a length of %q: %d, %t", text, n, ok)
		}
	}
	for _, text := range []string{"a: b", "a: b\n", "a: b\n c\n\n"} {
		if _, err := appendFields(nil, text); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestReason(t *testing.T) {
	for line, want := range map[string]string{
		"HTTP/1.1 200": "", "HTTP/1.1 200 ": "", "HTTP/1.1 200 Fine": "Fine", "HTTP/1.0 404 No\tway \xe4": "No\tway \xe4",
		"HTTP/1.1 200 a\x00b": "", "HTTP/1.1 200 a\x7f": "", "HTTP/1.1 200 a\rb": "",
	} {
		var b Buffer
		var r Response
		b.Resume(strings.NewReader(lines(line, "Content-Length: 0", "", "")), make([]byte, 64), 0)
		if err := b.ReadResponse(&r, "GET"); err != nil || r.Reason != want {
			t.Errorf("%q: %q, %v", line, r.Reason, err)
		}
	}
}
