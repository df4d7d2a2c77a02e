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

// setHead fills the request from the head that was read.
func (w *Response) setHead(c *conn) error {
	r := &w.request
	*r = *c.blank()
	r.Method, r.RequestURI, r.Host = w.head.Method, w.head.Target, w.head.Host
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, w.head.Minor
	if w.head.Minor == 0 {
		r.Proto = "HTTP/1.0"
	}
	r.RemoteAddr, r.Close = c.remote, !w.head.KeepAlive
	if err := w.locate(); err != nil {
		return err
	}
	w.conn, w.asked, w.size, w.closes = c, w.head.Fields, w.head.Size, r.Close
	w.fill()
	r.Body, r.ContentLength = http.NoBody, w.head.Length
	if w.head.Framing != http1.Empty {
		w.body.begin(w)
		r.Body = &w.body
		w.keeps = true // another goroutine may still read the body for a moment after the answer
	}
	return nil
}

// body is the body of a request. Any goroutine may read it.
type body struct {
	of *Response

	mu      sync.Mutex // held while Read waits for the client; guards the fields below
	in      *http1.Buffer
	chunks  http1.ChunkedBody
	left    int64 // bytes that are still to come, if the body has a length
	expects bool  // whether the client waits for a 100 (Continue)
	err     error // io.EOF: the body was read to its end

	complete atomic.Bool // whether err is io.EOF
}

func (b *body) begin(w *Response) {
	b.of, b.in, b.left, b.expects = w, &w.conn.in, w.head.Length, w.head.Expects
	if w.head.Framing == http1.Chunked {
		b.chunks.ResetShort(b.in)
	}
}

// Read implements io.Reader. If the client waits for a 100 (Continue), Read sends it.
func (b *body) Read(p []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	defer b.survive(&err)
	if b.expects {
		b.expects = false
		b.of.goOn()
	}
	if b.of.head.Framing == http1.Chunked {
		n, err = b.chunks.Read(p)
	} else {
		n, err = b.readLength(p)
	}
	b.err = err
	b.complete.Store(errors.Is(err, io.EOF))
	return n, err
}

// survive turns a panic into an error, because Read may run on one of the handler's goroutines.
func (b *body) survive(err *error) {
	if p := recover(); p != nil {
		b.of.conn.fails(p)
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

// Close makes later reads fail.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = http.ErrBodyReadAfterClose
	}
	return nil
}

// isUnread reports whether a part of the body may still come. It takes no lock, because a reader
// that waits for the client holds it.
func (b *body) isUnread() bool { return b.of != nil && !b.complete.Load() }

// isBroken reports whether the rest of the body can no longer arrive. It returns false after a deadline, because
// handlers also set deadlines to wake readers, and after malformed chunks, because the client may send more.
func (b *body) isBroken() bool {
	if b.of == nil {
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

// mostLong is the number of heads larger than inSize that may be read at a time. Without this bound, a client
// with many connections could make the server hold Options.MaxHead bytes for each of them.
const mostLong = 1024

// longestShort is the longest head, in bytes, that fits in the usual memory.
const longestShort = inSize - 1

// readHead reads the head of a request. If the head turns out to be long, it must first get one of mostLong
// places. Afterwards the bytes that follow the head are in the usual memory again.
func (c *conn) readHead(head *http1.RequestHead) error {
	most := c.server.o.MaxHead
	if most < inSize {
		return c.in.ReadRequest(head, most)
	}
	err := c.in.ReadRequest(head, longestShort)
	if c.in.Buffered() < longestShort || err == nil {
		return err // the head fits in the usual memory, or reading it failed
	}
	if ok, _ := c.server.long.Take(c.peer, 1); !ok {
		return err
	}
	defer c.server.long.GiveBack(c.peer, 1)
	err = c.in.ReadRequest(head, most)
	n := copy(c.memory[:], c.in.Peek(inSize)) // all bytes after the head; after an error, the rest isn't needed
	c.in.Resume(c.Conn, c.memory[:], n)
	return err
}
