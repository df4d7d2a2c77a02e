package proxy

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"tempomat/proxy/http1"
	"tempomat/proxy/spool"
)

// body is a request's body, on its way from the client to the backend. It stops
// the meter while the backend has to wait for the client, and gives up on a
// client that sends nothing.
type body struct {
	io.ReadCloser
	x    *exchange
	conn *http.ResponseController
	kept *spool.Spool // what was read ahead, and what comes after it; nil: nothing goes through it
	// trailer is for the backend's side, which looks at it while the server may write
	// the request's own.
	trailer http.Header

	reading sync.Mutex // held by a Read, which may wait for the client; guards the following
	ahead   []byte     // a small body that was read ahead

	mu    sync.Mutex // guards the following, and the connection's read deadline
	ended bool       // the exchange is over: the connection may serve the next one

	complete atomic.Bool // read to its end
	broken   atomic.Bool // the client did not send all of it
	unsound  atomic.Bool // as what it sent is no body
}

// Read is called by the backend's side, which may go on for a moment after the
// exchange is over.
func (b *body) Read(p []byte) (n int, err error) {
	n, err = b.read(p)
	switch end := errors.Is(err, io.EOF); {
	case end && b.trailer != nil:
		maps.Copy(b.trailer, trailers(b.x.request.Trailer))
	case err != nil && !end && b.broken.Load():
		b.x.leave(time.Now())
	}
	return n, err
}

func (b *body) read(p []byte) (n int, err error) {
	if !b.complete.Load() {
		b.x.Pause(time.Now())
		defer func() { b.x.Resume(time.Now()) }()
	}
	if b.kept != nil {
		if n, err = b.kept.Read(p); errors.Is(err, spool.ErrClosed) {
			err = http.ErrBodyReadAfterClose
		}
		return n, err
	}
	b.reading.Lock()
	defer b.reading.Unlock()
	if len(b.ahead) > 0 {
		n = copy(p, b.ahead)
		b.ahead = b.ahead[n:]
		return n, nil
	}
	return b.fetch(p)
}

// Close is called by the backend's side. The client's side is for the server to
// close, as that may wait for the rest.
func (b *body) Close() error {
	if b.kept != nil {
		b.kept.Close()
	}
	return nil
}

// fetch reads from the client. b.reading is held.
func (b *body) fetch(p []byte) (int, error) {
	if b.complete.Load() {
		return 0, io.EOF // asked again, when the server's body may be closed
	}
	if !b.limit(time.Now().Add(b.x.policy.Body)) {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.ReadCloser.Read(p)
	if err == nil || err == io.EOF || b.x.request.ProtoMajor == 2 {
		// HTTP/2 has a deadline pass though nobody reads, and keeps a stream that was
		// reset until then. And once the body is complete the exchange may end at any
		// time, and the connection wait for its next request.
		b.limit(time.Time{})
	}
	b.complete.Store(err == io.EOF)
	b.unsound.Store(errors.Is(err, http1.ErrMalformed))
	b.broken.Store(err != nil && err != io.EOF)
	return n, err
}

// limit sets until when the client may send something, unless the exchange is over.
func (b *body) limit(until time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return false
	}
	_ = b.conn.SetReadDeadline(until) // without one it only waits longer
	return true
}

// unread tells whether a request has a body that was not read to its end.
func (b *body) unread() bool { return b.ReadCloser != nil && !b.complete.Load() }

// isReady tells whether reading the body waits for nobody.
func (b *body) isReady() bool { return b.kept == nil && b.complete.Load() }

// end lets go of the connection. Of a body that nobody wanted to its end, the
// server reads some more, so that its client comes to read the answer; for that
// it has to have the connection for itself.
func (b *body) end(now time.Time) {
	if b.ReadCloser == nil {
		return
	}
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	if b.kept != nil {
		b.kept.Close()
	}
	if !b.unread() {
		return
	}
	_ = b.conn.SetReadDeadline(now) // wakes a Read that is under way
	b.reading.Lock()
	defer b.reading.Unlock()
	_ = b.conn.SetReadDeadline(time.Time{}) // the server has limits of its own
}
