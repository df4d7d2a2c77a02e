package http1

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestPiecesDoNotWait: Read returns the part of a chunked body that has arrived, and io.EOF with its last
// bytes.
func TestPiecesDoNotWait(t *testing.T) {
	r, w := io.Pipe()
	var b Buffer
	b.Resume(r, make([]byte, 64), 0)
	var c ChunkedBody
	c.Reset(&b)
	p := make([]byte, 64)
	for _, piece := range []struct {
		sent, want string
		end        error
	}{
		{"3\r\nabc", "abc", nil}, {"\r\n2\r\nde\r", "de", nil}, {"\n1\r\nf\r\n4", "f", nil},
		{"\r\nghij\r\n0\r\n", "ghij", nil}, {"\r\n", "", io.EOF},
		{"5\r\nk", "k", nil}, {"lmno\r\n", "lmno", nil},
	} {
		if errors.Is(c.err, io.EOF) {
			c.Reset(&b)
		}
		go w.Write([]byte(piece.sent))
		n, err := c.Read(p)
		if string(p[:n]) != piece.want || !errors.Is(err, piece.end) {
			t.Fatalf("after %q: read %q, %v", piece.sent, p[:n], err)
		}
	}
	b.Resume(strings.NewReader("1\r\na\r\n0\r\n\r\n"), make([]byte, 64), 0)
	c.Reset(&b)
	if n, err := c.Read(p); n != 1 || !errors.Is(err, io.EOF) {
		t.Errorf("read %d bytes, %v; want the end with the last byte", n, err)
	}
}

// TestSizesWithZerosBeforeThem: Read returns all chunks that have arrived, however their sizes are written. It
// must not search for the end of the body at each chunk, because the searches would take too long.
func TestSizesWithZerosBeforeThem(t *testing.T) {
	for _, size := range []string{"1", "0001"} {
		var b Buffer
		b.Resume(io.MultiReader(strings.NewReader(strings.Repeat(size+"\r\nx\r\n", 100)), strings.NewReader("00\r\n\r\n")), make([]byte, 2000), 0)
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

// TestOneReadOfSeveralChunks: one Read returns several chunks, but not the error that follows them.
func TestOneReadOfSeveralChunks(t *testing.T) {
	broken := errors.New("broken")
	for _, x := range []struct {
		src  io.Reader
		want string
		end  error
	}{
		{strings.NewReader("3\r\nabc\r\n1\r\nd\r\n02\r\nef\r\n0\r\n\r\n"), "abcdef", io.EOF},
		{strings.NewReader("3\r\nabc\r\nx\r\n"), "abc", ErrMalformed},
		{strings.NewReader("1\r\na\r\n1x\r\n"), "a", ErrMalformed},
		{io.MultiReader(strings.NewReader("3\r\nab"), iotest.ErrReader(broken)), "ab", broken},
	} {
		var b Buffer
		b.Resume(x.src, make([]byte, 512), 0)
		var c ChunkedBody
		c.Reset(&b)
		p := make([]byte, 64)
		n, err := c.Read(p)
		if string(p[:n]) != x.want || err != nil && !errors.Is(x.end, io.EOF) {
			t.Errorf("%q, %v, want %q", p[:n], err, x.want)
		}
		if n, err := c.Read(p); n > 0 || !errors.Is(err, x.end) {
			t.Errorf("after %q: %d bytes, %v, want %v", x.want, n, err, x.end)
		}
	}
	if _, err := read(iotest.ErrReader(broken), "GET"); !errors.Is(err, broken) {
		t.Errorf("a connection that breaks before the head: %v", err)
	}
	var b Buffer
	b.Resume(strings.NewReader("1\r\nab\r\n"), make([]byte, 512), 0)
	var c ChunkedBody
	c.Reset(&b)
	if _, err := io.ReadAll(&c); err == nil || !strings.Contains(err.Error(), "longer than its stated size") {
		t.Errorf("a chunk that is too long: %v", err)
	}
}

// silent is a connection whose reads return nothing and no error.
type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, nil }

func TestNoProgress(t *testing.T) {
	if _, err := read(silent{}, "GET"); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("reading nothing for ever: %v", err)
	}
}

// TestTrailersOfRequestsAreFewAndShort: only the trailers of requests are limited to a few short ones.
func TestTrailersOfRequestsAreFewAndShort(t *testing.T) {
	for name, c := range map[string]struct {
		trailer string
		short   bool
	}{
		"as many as may be":   {strings.Repeat("a: b\r\n", FewTrailers), true},
		"one more":            {strings.Repeat("a: b\r\n", FewTrailers+1), false},
		"as long as may be":   {"a:" + strings.Repeat("x", ShortTrailer-2) + "\r\n", true},
		"a byte longer":       {"a:" + strings.Repeat("x", ShortTrailer-1) + "\r\n", false},
		"longer in two":       {strings.Repeat("a:"+strings.Repeat("x", ShortTrailer/2-1)+"\r\n", 2), false},
		"nothing in it":       {"", true},
		"a line, not yet all": {"a:" + strings.Repeat("x", 2*ShortTrailer), false},
	} {
		text := "1\r\nx\r\n0\r\n" + c.trailer
		if strings.HasSuffix(text, "\n") {
			text += "\r\n"
		}
		var b Buffer
		var body ChunkedBody
		b.Resume(strings.NewReader(text), make([]byte, 512), 0)
		body.ResetShort(&b)
		if got, err := io.ReadAll(&body); (err == nil) != c.short || err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%s, of a request: %q, %v", name, got, err)
		}
		if len(b.data) > 3*ShortTrailer {
			t.Errorf("%s: the buffer has %d bytes", name, len(b.data))
		}
		b.Resume(strings.NewReader(text), make([]byte, 512), 0)
		body.Reset(&b)
		if got, err := io.ReadAll(&body); err != nil && name != "a line, not yet all" {
			t.Errorf("%s, of an answer: %q, %v", name, got, err)
		}
	}
}
