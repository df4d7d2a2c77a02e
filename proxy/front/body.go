package front

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"

	"tempomat/proxy/http1"
)

// body is that of a request. Another goroutine than the handler's may read it.
type body struct {
	r *request

	mu      sync.Mutex // held while the client is waited for; guards the following
	in      *http1.Buffer
	chunks  http1.ChunkedBody
	left    int64 // of a body that has a length
	expects bool  // the client waits to be told to go on
	err     error // io.EOF: it was read to its end

	complete atomic.Bool // it was
}

func (b *body) begin(c *conn, r *request) {
	b.r, b.in, b.left, b.expects = r, &c.in, r.head.Length, r.head.Expects
	if r.head.Framing == http1.Chunked {
		b.chunks.ResetShort(b.in)
	}
}

// Read implements io.Reader. A client that waits to be asked for the body is.
func (b *body) Read(p []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	defer b.survive(&err)
	if b.expects {
		b.expects = false
		b.r.response.goOn()
	}
	if b.r.head.Framing == http1.Chunked {
		n, err = b.chunks.Read(p)
	} else {
		n, err = b.readLength(p)
	}
	b.err = err
	b.complete.Store(errors.Is(err, io.EOF))
	if errors.Is(err, io.EOF) && len(b.chunks.Trailer) > 0 {
		b.takeTrailer()
	}
	return n, err
}

// survive makes an error of a panic: who reads may be a goroutine beside that of the connection.
func (b *body) survive(err *error) {
	if p := recover(); p != nil {
		b.r.response.conn.fails(p)
		b.err = errFailed
		*err = b.err
	}
}

func (b *body) readLength(p []byte) (int, error) {
	n, err := b.in.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	switch {
	case b.left == 0:
		return n, io.EOF
	case errors.Is(err, io.EOF):
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}

// takeTrailer adds what came after the body to the request's Trailer.
func (b *body) takeTrailer() {
	if b.r.Trailer == nil {
		b.r.Trailer = make(http.Header, len(b.chunks.Trailer))
	}
	for _, f := range b.chunks.Trailer {
		b.r.Trailer.Add(string(f.Name), string(f.Value))
	}
}

// Close has nobody read it any more.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = http.ErrBodyReadAfterClose
	}
	return nil
}

// isUnread tells whether some of it may still come. It does not wait for who reads it: the
// client may wait for the answer's head.
func (b *body) isUnread() bool { return b.r != nil && !b.complete.Load() }

// isBroken tells whether the client cannot send the rest of it. One that is late may, and
// it may be the handler that woke who waited for it; and one that sent no chunks may send more
// of the kind.
func (b *body) isBroken() bool {
	if b.r == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, err := range []error{nil, io.EOF, http.ErrBodyReadAfterClose, os.ErrDeadlineExceeded, http1.ErrMalformed} {
		if errors.Is(b.err, err) {
			return false
		}
	}
	return true
}
