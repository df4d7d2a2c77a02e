package http1

import (
	"bytes"
	"errors"
	"io"
)

const (
	// maxChunkLine bounds the line before a chunk, with what extends it.
	maxChunkLine = 4 << 10
	// maxTrailer bounds all trailers together.
	maxTrailer = 64 << 10
	// FewTrailers is how many trailers a request may have: any client can make a server hold
	// them until the body is complete, on any number of connections.
	FewTrailers = 64
	// ShortTrailer is how many bytes they may have together.
	ShortTrailer = 4 << 10
)

// ChunkedBody reads a body in chunks (RFC 9112, 7.1), and checks each of them. It reads no byte
// beyond its end. Chunk extensions are dropped, as required for unknown ones (7.1.1).
type ChunkedBody struct {
	// Trailer is what came after the body, once that was read to its end.
	Trailer Fields

	b     *Buffer
	short bool  // the trailers have to be
	left  int64 // of the chunk
	began bool
	err   error
}

// Reset has it read from a Buffer.
func (c *ChunkedBody) Reset(b *Buffer) { *c = ChunkedBody{b: b, Trailer: c.Trailer[:0]} }

// ResetShort has it read the body of a request, whose trailers are few and short.
func (c *ChunkedBody) ResetShort(b *Buffer) {
	c.Reset(b)
	c.short = true
}

// Read implements io.Reader. The end is told together with the last bytes if it is
// there.
func (c *ChunkedBody) Read(p []byte) (n int, err error) {
	for c.err == nil && n < len(p) {
		if c.left == 0 {
			if n > 0 && !c.hasNext() {
				break // what there is shall not wait
			}
			c.err = c.next()
			continue
		}
		if n > 0 && c.b.Buffered() == 0 {
			break
		}
		got, err := c.b.Read(p[n:min(int64(len(p)), int64(n)+c.left)])
		n += got
		c.left -= int64(got)
		switch {
		case got > 0: // an error comes again
		case errors.Is(err, io.EOF):
			c.err = io.ErrUnexpectedEOF
		case err != nil:
			c.err = err
		}
	}
	// nil is checked first, although errors.Is would do that: errors are rare, and errors.Is
	// takes longer than a comparison.
	if n > 0 && c.err != nil && !errors.Is(c.err, io.EOF) {
		return n, nil
	}
	return n, c.err
}

// Waits reports whether Read has to wait for bytes that are not in the Buffer.
func (c *ChunkedBody) Waits() bool {
	switch {
	case c.err != nil:
		return false
	case c.left > 0:
		return c.b.Buffered() == 0
	case c.began:
		return !c.hasNext()
	}
	return bytes.IndexByte(c.b.data[c.b.from:c.b.to], '\n') < 0
}

// hasNext reports whether the line before the next chunk was read, or the whole end.
func (c *ChunkedBody) hasNext() bool {
	p := c.b.data[c.b.from:c.b.to]
	i := bytes.IndexByte(p, '\n') // Cut takes longer, and an empty line would do as well
	if i < 0 || i+1 == len(p) {
		return false
	}
	line := p[i+1:]
	size := bytes.TrimLeft(line, "0")
	if len(size) == 0 || hexDigit(size[0]) == -1 { // none: the last one, or no chunk
		return endOfHead(line, 0) > 0
	}
	return bytes.IndexByte(line, '\n') >= 0
}

// next reads the end of a chunk, and the size of the next one. The last one, of no
// size, the trailers follow.
func (c *ChunkedBody) next() error {
	if c.began {
		if line, err := c.b.line(0); err != nil || len(line) > 0 {
			return orEnd(err, Malformed("a chunk that is longer than its size line"))
		}
	}
	c.began = true
	line, err := c.b.line(maxChunkLine)
	if err != nil {
		return err
	}
	if c.left, err = parseSize(line); err != nil || c.left > 0 {
		return err
	}
	return c.readTrailer()
}

// readTrailer reads the lines after the last chunk.
func (c *ChunkedBody) readTrailer() error {
	left, most := maxTrailer, maxFields
	if c.short {
		left, most = ShortTrailer, FewTrailers
	}
	for {
		line, err := c.b.line(left)
		switch {
		case err != nil:
			return err
		case len(line) == 0:
			return io.EOF
		case len(c.Trailer) == most:
			return Malformed("too many fields")
		}
		f, err := parseField(string(line)) // the next one may move what is in the Buffer
		if err != nil {
			return err
		}
		left -= len(line)
		c.Trailer = append(c.Trailer, f)
	}
}

// parseSize reads a size in hexadecimal digits, and checks what extends it.
func parseSize(line []byte) (n int64, err error) {
	i := 0
	for ; i < len(line); i++ {
		digit := hexDigit(line[i])
		if digit < 0 {
			break
		}
		if i == 15 {
			return 0, Malformed("a chunk of a size that has too many digits")
		}
		n = n<<4 | int64(digit)
	}
	if i == 0 {
		return 0, Malformed("a chunk without a size")
	}
	rest := line[i:]
	for len(rest) > 0 && rest[0] == ' ' { // some servers of old fill the line up
		rest = rest[1:]
	}
	if extends := trimSpace(rest); len(rest) > 0 && (len(extends) == 0 || extends[0] != ';') {
		return 0, Malformed("a chunk of a size that is no number")
	}
	if !IsText(rest) {
		return 0, Malformed("a control character before a chunk")
	}
	return n, nil
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// orEnd is an error, or if there is none the other one.
func orEnd(err, other error) error {
	if err != nil && !errors.Is(err, errTooLong) {
		return err
	}
	return other
}
