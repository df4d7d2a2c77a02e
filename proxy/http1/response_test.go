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
func read(src io.Reader, method string) (a answer, err error) {
	var b Buffer
	b.Reset(src, make([]byte, 64))
	var r Response
	if err := b.ReadResponse(&r, method); err != nil {
		return a, err
	}
	a = answer{Status: r.Status, Header: Header(r.Fields), Framing: r.Framing, KeepAlive: r.KeepAlive}
	var body []byte
	switch r.Framing {
	case Empty:
	case Length:
		if body, err = io.ReadAll(io.LimitReader(&b, r.Length)); err == nil && int64(len(body)) < r.Length {
			err = io.ErrUnexpectedEOF
		}
	case Chunked:
		var c ChunkedBody
		c.Reset(&b)
		body, err = io.ReadAll(&c)
		if len(c.Trailer) > 0 {
			a.Trailer = Header(c.Trailer)
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
		"not modified": {lines("HTTP/1.1 304 Not Modified", "Content-Length: 5", "", "left"), "GET", answer{
			Status: 304, Header: http.Header{"Content-Length": {"5"}}, KeepAlive: true, Left: "left"}},
		"a field that goes on": {lines("HTTP/1.1 204 OK", "A: b", " c", "\td", "E: f", "", ""), "GET", answer{
			Status: 204, Header: http.Header{"A": {"b   c   d"}, "E": {"f"}}, KeepAlive: true}},
		"lines that end in LF alone": {"HTTP/1.1 200 OK\nA: b\nContent-Length: 1\n\na", "GET", answer{
			Status: 200, Header: http.Header{"A": {"b"}, "Content-Length": {"1"}}, Framing: Length, Body: "a", KeepAlive: true}},
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

// refused are messages that nobody may understand.
func refused() map[string]string {
	return map[string]string{
		"no HTTP":                      "SSH-2.0-OpenSSH_9.2\r\n\r\n",
		"HTTP/2":                       "HTTP/2.0 200 OK\r\n\r\n",
		"a status of two digits":       "HTTP/1.1 20 OK\r\n\r\n",
		"a status of four digits":      "HTTP/1.1 2000 OK\r\n\r\n",
		"a status that is none":        "HTTP/1.1 099 OK\r\n\r\n",
		"a space before the colon":     lines("HTTP/1.1 200 OK", "Content-Length : 1", "", "a"),
		"no name":                      lines("HTTP/1.1 200 OK", ": 1", "", "a"),
		"no colon":                     lines("HTTP/1.1 200 OK", "nonsense", "", "a"),
		"a name that is no token":      lines("HTTP/1.1 200 OK", "a(b): 1", "", "a"),
		"a control character":          lines("HTTP/1.1 200 OK", "a: b\x00c", "", "a"),
		"a CR in a value":              "HTTP/1.1 200 OK\r\na: b\rc: d\r\n\r\n",
		"a first line that goes on":    lines("HTTP/1.1 200 OK", " a: b", "", ""),
		"lengths that differ":          lines("HTTP/1.1 200 OK", "Content-Length: 1", "Content-Length: 2", "", "ab"),
		"lengths that differ, in one":  lines("HTTP/1.1 200 OK", "Content-Length: 1, 2", "", "ab"),
		"a length with a sign":         lines("HTTP/1.1 200 OK", "Content-Length: +1", "", "a"),
		"a length in hexadecimal":      lines("HTTP/1.1 200 OK", "Content-Length: 0x1", "", "a"),
		"a length beyond all":          lines("HTTP/1.1 200 OK", "Content-Length: 18446744073709551617", "", "a"),
		"an empty length":              lines("HTTP/1.1 200 OK", "Content-Length:", "", "a"),
		"another transfer coding":      lines("HTTP/1.1 200 OK", "Transfer-Encoding: gzip, chunked", "", ""),
		"a coding after chunked":       lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked, identity", "", ""),
		"chunked twice":                lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked", "", "0", "", ""),
		"a coding that looks like it":  lines("HTTP/1.1 200 OK", "Transfer-Encoding: \"chunked\"", "", ""),
		"a chunk without a size":       lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "", ""),
		"a chunk with a sign":          lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "-1", "a", "0", "", ""),
		"a chunk with a prefix":        lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "0x1", "a", "0", "", ""),
		"a chunk of 2^64 and 1":        lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "10000000000000001", "a", "0", "", ""),
		"a chunk longer than it says":  lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "1", "ab", "0", "", ""),
		"a chunk shorter than it says": lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "3", "a", "0", "", ""),
		"a trailer that is no field":   lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "0", "nonsense", "", ""),
		"a long line before a chunk":   lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "1;"+strings.Repeat("x", maxChunkLine), "a", "0", "", ""),
		"a chunk that begins after LF": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n",
		"a trailer that ends in LF":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\na: b\n\r\n",
		"a long head":                  lines("HTTP/1.1 200 OK", "a: "+strings.Repeat("x", maxHead), "", ""),
		"too many fields":              "HTTP/1.1 200 OK\r\n" + strings.Repeat("a: b\r\n", maxFields+1) + "\r\n",
		"trailers without end":         lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "0") + strings.Repeat("\r\na: b", maxFields+1) + "\r\n\r\n",
		"long trailers":                lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "0", "a: "+strings.Repeat("x", maxTrailer), "", ""),
	}
}

func TestRefusesWhatIsAmbiguous(t *testing.T) {
	for name, text := range refused() {
		for how, src := range map[string]io.Reader{
			"at once": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text)),
		} {
			if a, err := read(src, "GET"); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s, %s: %+v, error %v, want a malformed message", name, how, a, err)
			}
		}
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

// TestPiecesDoNotWait: what has come of a body in chunks is read at once, and the end
// with the last of it.
func TestPiecesDoNotWait(t *testing.T) {
	r, w := io.Pipe()
	var b Buffer
	b.Reset(r, make([]byte, 64))
	var c ChunkedBody
	c.Reset(&b)
	p := make([]byte, 64)
	for _, piece := range []struct {
		sent, want string
		end        error
	}{
		{"3\r\nabc", "abc", nil}, {"\r\n2\r\nde\r", "de", nil}, {"\n1\r\nf\r\n4", "f", nil},
		{"\r\nghij\r\n0\r\n", "ghij", nil}, {"\r\n", "", io.EOF},
	} {
		go w.Write([]byte(piece.sent))
		n, err := c.Read(p)
		if string(p[:n]) != piece.want || !errors.Is(err, piece.end) {
			t.Fatalf("after %q: read %q, %v", piece.sent, p[:n], err)
		}
	}
	b.Reset(strings.NewReader("1\r\na\r\n0\r\n\r\n"), make([]byte, 64))
	c.Reset(&b)
	if n, err := c.Read(p); n != 1 || !errors.Is(err, io.EOF) {
		t.Errorf("read %d bytes, %v; want the end with the last byte", n, err)
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

// TestSizesWithZerosBeforeThem: what is there of several chunks is read at once, however
// their sizes are written. To look for the end of all at each of them takes for ever.
func TestSizesWithZerosBeforeThem(t *testing.T) {
	for _, size := range []string{"1", "0001"} {
		var b Buffer
		b.Reset(io.MultiReader(strings.NewReader(strings.Repeat(size+"\r\nx\r\n", 100)), strings.NewReader("00\r\n\r\n")), make([]byte, 2000))
		var c ChunkedBody
		c.Reset(&b)
		if n, err := c.Read(make([]byte, 1000)); n != 100 || err != nil {
			t.Errorf("%s: %d bytes at once, %v", size, n, err)
		}
		if n, err := c.Read(make([]byte, 1000)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("%s: %d more bytes, %v", size, n, err)
		}
	}
}
