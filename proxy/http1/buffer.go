package http1

import (
	"bytes"
	"errors"
	"io"
	"net/http"
)

var (
	// ErrMalformed matches, with errors.Is, all errors that are caused by the message and not by the connection.
	ErrMalformed = errors.New("malformed message")
	// ErrTooLong means that a head, a line or trailers are longer than allowed.
	ErrTooLong error = &fault{http.StatusRequestHeaderFieldsTooLarge, "longer than allowed"}
	// ErrExpectation means that an Expect field has a value other than 100-continue.
	ErrExpectation error = &fault{http.StatusExpectationFailed, "an expectation other than 100-continue"}
)

// fault is an error in a message, with the status of the answer to that message.
type fault struct {
	status int
	what   string
}

// Malformed returns an ErrMalformed, for callers that check more of a message than this package does.
func Malformed(what string) error { return &fault{http.StatusBadRequest, what} }

func (f *fault) Error() string { return "malformed message: " + f.what }

// Is lets errors.Is find ErrMalformed.
func (f *fault) Is(target error) bool { return target == ErrMalformed }

// StatusOf returns the status for a malformed request: 400, or a more specific one.
func StatusOf(err error) int {
	if f, ok := errors.AsType[*fault](err); ok {
		return f.status
	}
	return http.StatusBadRequest
}

// Step is the most bytes by which the memory of a Buffer grows at a time. After a head for which the memory has grown, the
// Buffer therefore holds at most as many bytes of what follows.
const Step = 8 << 10

// Buffer reads from a connection. Its methods return slices of its memory, which are valid until
// the next call. One goroutine at a time may use it.
type Buffer struct {
	src      io.Reader
	data     []byte
	from, to int // bounds of the bytes in data that were read but not yet taken
}

// Resume makes the Buffer read from src into the given memory, which begins with bytes that were already
// read.
func (b *Buffer) Resume(src io.Reader, memory []byte, read int) {
	*b = Buffer{src: src, data: memory, to: read}
}

// Peek returns up to n bytes that were read, without taking them.
func (b *Buffer) Peek(n int) []byte { return b.data[b.from : b.from+min(n, b.Buffered())] }

// More reads more bytes.
func (b *Buffer) More() error { return b.fill(b.Buffered() + 1) }

// Buffered returns how many bytes have been read but not taken.
func (b *Buffer) Buffered() int { return b.to - b.from }

// Take takes up to n bytes that were read.
func (b *Buffer) Take(n int) []byte {
	n = min(n, b.Buffered())
	p := b.data[b.from : b.from+n]
	b.from += n
	return p
}

// Read implements io.Reader.
func (b *Buffer) Read(p []byte) (int, error) {
	if b.Buffered() == 0 {
		return b.src.Read(p)
	}
	return copy(p, b.Take(len(p))), nil
}

// fill makes room and reads more bytes. most limits how many bytes the Buffer holds afterwards.
func (b *Buffer) fill(most int) error {
	if b.from == b.to {
		b.from, b.to = 0, 0
	}
	if b.to == len(b.data) {
		switch n := b.Buffered(); {
		case n >= most:
			return ErrTooLong
		case b.from > 0:
			copy(b.data, b.data[b.from:b.to])
		default:
			b.data = append(b.data, make([]byte, max(512, min(n, most-n, Step)))...)
		}
		b.from, b.to = 0, b.Buffered()
	}
	for range 100 { // an io.Reader may return 0 bytes without an error
		n, err := b.src.Read(b.data[b.to:])
		b.to += n
		switch {
		case n > 0:
			return nil
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
	}
	return io.ErrNoProgress
}

// line takes a line, and returns it without the CR LF at its end. most is the largest length, in bytes.
func (b *Buffer) line(most int) ([]byte, error) {
	for seen := 0; ; {
		p := b.data[b.from:b.to]
		if i := bytes.IndexByte(p[seen:], '\n'); i >= 0 {
			i += seen
			line := trimEnd(p[:i])
			switch {
			case len(line) > most:
				return nil, ErrTooLong
			case len(line) == i:
				return nil, Malformed("a line in the body that ends in LF alone")
			}
			b.from += i + 1
			return line, nil
		}
		if seen = len(p); seen > most+1 {
			return nil, ErrTooLong
		}
		if err := b.fill(most + 2); err != nil {
			return nil, err
		}
	}
}

// head takes all lines up to and including an empty one.
func (b *Buffer) head(most int) ([]byte, error) {
	for seen := 0; ; {
		p := b.data[b.from:b.to]
		if end := endOfHead(p, seen); end > 0 {
			if end > most {
				return nil, ErrTooLong
			}
			b.from += end
			return p[:end], nil
		}
		if len(p) >= most {
			return nil, ErrTooLong
		}
		seen = len(p)
		if err := b.fill(most); err != nil {
			return nil, err
		}
	}
}

// endOfHead returns where the first empty line ends, or 0. It doesn't search the bytes before seen again. The
// first line is never empty.
func endOfHead(p []byte, seen int) int {
	for from := max(0, seen-3); ; {
		i := bytes.IndexByte(p[from:], '\n')
		if i < 0 {
			return 0
		}
		from += i + 1
		switch rest := p[from:]; {
		case len(rest) > 0 && rest[0] == '\n':
			return from + 1
		case len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n':
			return from + 2
		}
	}
}

// trimEnd removes the CR at the end of a line.
func trimEnd[T string | []byte](line T) T {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		return line[:n-1]
	}
	return line
}
