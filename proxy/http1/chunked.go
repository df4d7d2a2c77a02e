package http1

import (
	"bytes"
	"errors"
	"io"
)

const (
	// maxChunkLine bounds the line before a chunk, including extensions, in bytes.
	maxChunkLine = 4 << 10
	// maxTrailer bounds the total size of all trailers, in bytes.
	maxTrailer = 64 << 10
	// FewTrailers is how many trailers a request may have. The number is small because the server must hold
	// them until the body is complete, for every connection of every client.
	FewTrailers = 64
	// ShortTrailer is how many bytes the trailers of a request may have in total.
	ShortTrailer = 4 << 10
)

// ChunkedBody reads a body in chunks and checks them (RFC 9112, 7.1). It reads no byte beyond the body's end.
// It ignores chunk extensions, as required for unknown ones (7.1.1).
type ChunkedBody struct {
	// Trailer has the trailers after the body was read to the end.
	Trailer Fields

	b     *Buffer
	short bool  // whether the trailers must be few and short
	left  int64 // how many bytes of the chunk haven't been read yet
	began bool
	err   error
}

// Reset makes the ChunkedBody read from a Buffer.
func (c *ChunkedBody) Reset(b *Buffer) { *c = ChunkedBody{b: b, Trailer: c.Trailer[:0]} }

// ResetShort is like Reset, for the body of a request, whose trailers must be few and short.
func (c *ChunkedBody) ResetShort(b *Buffer) {
	c.Reset(b)
	c.short = true
}

// Read implements io.Reader. It returns io.EOF together with the last bytes if the end has been
// read.
func (c *ChunkedBody) Read(p []byte) (n int, err error) {
	for c.err == nil && n < len(p) {
		if c.left == 0 {
			if n > 0 && !c.hasNext() {
				break // returns what has arrived instead of waiting for more
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
		case got > 0: // the next read returns the error
		case errors.Is(err, io.EOF):
			c.err = io.ErrUnexpectedEOF
		case err != nil:
			c.err = err
		}
	}
	// The check for nil comes first because errors.Is is slower, and errors are rare.
	if n > 0 && c.err != nil && !errors.Is(c.err, io.EOF) {
		return n, nil
	}
	return n, c.err
}

// Waits reports whether Read would have to wait for bytes that aren't in the Buffer.
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

// More reads more bytes into the Buffer, for example the end of a chunk. It returns false if the next bytes belong
// to a chunk, if the line before one is too long, or if reading fails.
func (c *ChunkedBody) More() bool {
	return c.left == 0 && c.b.Buffered() <= maxChunkLine && c.b.More() == nil
}

// hasNext reports whether the Buffer holds the whole line before the next chunk, or the whole end of the body.
func (c *ChunkedBody) hasNext() bool {
	p := c.b.data[c.b.from:c.b.to]
	i := bytes.IndexByte(p, '\n') // faster than bytes.Cut, and also finds an empty line
	if i < 0 || i+1 == len(p) {
		return false
	}
	line := p[i+1:]
	size := bytes.TrimLeft(line, "0")
	if len(size) == 0 || hexDigit(size[0]) == -1 { // the last chunk, whose size is 0, or a malformed one
		return endOfHead(line, 0) > 0
	}
	return bytes.IndexByte(line, '\n') >= 0
}

// next reads the end of a chunk and the size of the next one. After the last chunk, whose size is
// 0, it reads the trailers.
func (c *ChunkedBody) next() error {
	if c.began {
		if _, err := c.b.line(0); errors.Is(err, ErrTooLong) {
			return Malformed("a chunk that is longer than its stated size")
		} else if err != nil {
			return err
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

// readTrailer reads the trailers.
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
		f, err := parseField(string(line)) // the next call of line may move the bytes
		if err != nil {
			return err
		}
		left -= len(line)
		c.Trailer = append(c.Trailer, f)
	}
}

// parseSize parses a size in hexadecimal digits, and checks the extensions after it.
func parseSize(line []byte) (n int64, err error) {
	i := 0
	for ; i < len(line); i++ {
		digit := hexDigit(line[i])
		if digit < 0 {
			break
		}
		if i == 15 {
			return 0, Malformed("a chunk size with too many digits")
		}
		n = n<<4 | int64(digit)
	}
	if i == 0 {
		return 0, Malformed("a chunk without a size")
	}
	rest := line[i:]
	for len(rest) > 0 && rest[0] == ' ' { // some old servers pad the line with spaces
		rest = rest[1:]
	}
	if extends := trimSpace(rest); len(rest) > 0 && (len(extends) == 0 || extends[0] != ';') {
		return 0, Malformed("a chunk size that isn't a number")
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
