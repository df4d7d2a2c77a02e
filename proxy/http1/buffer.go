package http1

import (
	"bytes"
	"errors"
	"io"
	"net/http"
)

var (
	// ErrMalformed is found by errors.Is in all errors that a message itself makes.
	ErrMalformed = errors.New("malformed message")
	// errTooLong is a head, a line or trailers beyond the bound.
	errTooLong error = &statusFault{http.StatusRequestHeaderFieldsTooLarge, "longer than allowed"}
)

// fault is an error of a message.
type fault string

// Malformed makes an ErrMalformed. Callers use it that find more in a message than this package does.
func Malformed(what string) error { return fault(what) }

func (f fault) Error() string { return "malformed message: " + string(f) }

// Is has errors.Is find ErrMalformed.
func (f fault) Is(target error) bool { return target == ErrMalformed }

// statusFault is a fault with a status of its own.
type statusFault struct {
	status int
	fault
}

// StatusOf is the status for a malformed request: 400, or a more specific one.
func StatusOf(err error) int {
	if f, ok := errors.AsType[*statusFault](err); ok {
		return f.status
	}
	return http.StatusBadRequest
}

// endOf is io.EOF where a connection ended between two messages.
func endOf(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}

// Buffer reads from a connection. The results of its methods are in its memory, valid until the
// next call. It is for one goroutine at a time.
type Buffer struct {
	src      io.Reader
	data     []byte
	from, to int // what was read and not taken yet
}

// Reset has the Buffer read from src, to memory that it gets.
func (b *Buffer) Reset(src io.Reader, memory []byte) { *b = Buffer{src: src, data: memory} }

// Resume has the Buffer read from src, to memory that it gets, which begins with what
// was read already.
func (b *Buffer) Resume(src io.Reader, memory []byte, read int) {
	*b = Buffer{src: src, data: memory, to: read}
}

// Peek is what was read, at most n bytes, which are not taken.
func (b *Buffer) Peek(n int) []byte { return b.data[b.from : b.from+min(n, b.Buffered())] }

// More reads some more.
func (b *Buffer) More() error { return b.fill(b.Buffered() + 1) }

// Buffered is how many bytes were read and not taken.
func (b *Buffer) Buffered() int { return b.to - b.from }

// Take takes what was read, at most n bytes.
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

// fill reads more. There is room after it was made, up to a bound.
func (b *Buffer) fill(most int) error {
	if b.from == b.to {
		b.from, b.to = 0, 0
	}
	if b.to == len(b.data) {
		switch n := b.Buffered(); {
		case n >= most:
			return errTooLong
		case b.from > 0:
			copy(b.data, b.data[b.from:b.to])
		default:
			b.data = append(b.data, make([]byte, max(512, min(n, most-n)))...)
		}
		b.from, b.to = 0, b.Buffered()
	}
	for range 100 { // as io.Reader allows for
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

// line takes a line of at most so many bytes, without its end, which is CR LF.
func (b *Buffer) line(most int) ([]byte, error) {
	for seen := 0; ; {
		p := b.data[b.from:b.to]
		if i := bytes.IndexByte(p[seen:], '\n'); i >= 0 {
			i += seen
			line := trimEnd(p[:i])
			switch {
			case len(line) > most:
				return nil, errTooLong
			case len(line) == i:
				return nil, Malformed("a line in the body that ends in LF alone")
			}
			b.from += i + 1
			return line, nil
		}
		if seen = len(p); seen > most+1 {
			return nil, errTooLong
		}
		if err := b.fill(most + 2); err != nil {
			return nil, err
		}
	}
}

// head takes all lines up to an empty one, and that.
func (b *Buffer) head(most int) ([]byte, error) {
	for seen := 0; ; {
		p := b.data[b.from:b.to]
		if end := endOfHead(p, seen); end > 0 {
			if end > most {
				return nil, errTooLong
			}
			b.from += end
			return p[:end], nil
		}
		if len(p) >= most {
			return nil, errTooLong
		}
		seen = len(p)
		if err := b.fill(most); err != nil {
			return nil, err
		}
	}
}

// endOfHead is where the first empty line ends; 0: nowhere. The bytes before seen were searched
// already. The first line is not empty.
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

// trimEnd takes the CR off that a line ends with.
func trimEnd[T string | []byte](line T) T {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		return line[:n-1]
	}
	return line
}
