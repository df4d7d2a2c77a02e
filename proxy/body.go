package proxy

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// body is a request's body, on its way from the client to the backend. It stops
// the meter while the client is slow to send it, and gives up on one that sends
// nothing.
type body struct {
	io.ReadCloser
	x    *exchange
	conn *http.ResponseController

	reading sync.Mutex // held by a Read, which may wait for the client; guards the following
	ahead   []byte     // read already, for the backend

	mu    sync.Mutex // guards the following, and the connection's read deadline
	ended bool       // the exchange is over: the connection may serve the next one

	complete atomic.Bool // read to its end
	broken   atomic.Bool // the client did not send all of it
}

// aheadSize is the largest body, in bytes, that is read while its request waits.
const aheadSize = 64 << 10

// readAhead reads a small body while its request waits, as the server notices
// that a client has left only when it has read all that it sent. Not so if the
// client waits to be told to go on (RFC 9110, 10.1.1): that is for the backend.
func (b *body) readAhead() {
	if b.ReadCloser == nil {
		return
	}
	r := b.x.request
	if r.ContentLength <= 0 || r.ContentLength > aheadSize || r.Header["Expect"] != nil {
		return
	}
	b.reading.Lock()
	defer b.reading.Unlock()
	ahead := make([]byte, r.ContentLength)
	for n := 0; n < len(ahead); {
		got, err := b.fetch(ahead[n:])
		n += got
		b.ahead = ahead[:n]
		if err != nil {
			return // the transport is told when it asks
		}
	}
}

// Read is called by the transport, which may go on for a moment after the
// exchange is over.
func (b *body) Read(p []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	if len(b.ahead) > 0 {
		n := copy(p, b.ahead)
		b.ahead = b.ahead[n:]
		return n, nil
	}
	return b.fetch(p)
}

// fetch reads from the client.
func (b *body) fetch(p []byte) (int, error) {
	if b.complete.Load() {
		return 0, io.EOF // the transport asks again, when the server's body may be closed
	}
	now := time.Now()
	if !b.limit(now.Add(b.x.policy.Body)) {
		return 0, http.ErrBodyReadAfterClose
	}
	b.x.span.Pause(now)
	n, err := b.ReadCloser.Read(p)
	b.x.span.Resume(time.Now())
	b.complete.Store(err == io.EOF)
	b.broken.Store(err != nil && err != io.EOF)
	if err == nil || err == io.EOF {
		// The server goes on reading, to notice when the client leaves, for as long
		// as the answer takes; and HTTP/2 has a deadline pass though nobody reads.
		b.limit(time.Time{})
	}
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

// end lets go of the connection. Of a body that nobody wanted to its end, the
// server reads some more, so that its client comes to read the answer; for that
// it has to have the connection for itself, and a limit.
func (b *body) end(now time.Time) {
	if b.ReadCloser == nil {
		return
	}
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	if !b.unread() {
		return
	}
	until := now
	if !b.broken.Load() {
		until = now.Add(b.x.policy.Body)
	}
	_ = b.conn.SetReadDeadline(now) // wakes a Read that is under way
	b.reading.Lock()
	defer b.reading.Unlock()
	_ = b.conn.SetReadDeadline(until)
}
