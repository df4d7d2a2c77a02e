package proxy

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tempomat/proxy/errorpage"
	"tempomat/proxy/http1"
	"tempomat/proxy/spool"
	"tempomat/proxy/telemetry"
)

const (
	// smallBody is the largest body, in bytes, that is read ahead into memory without a limit
	// for all: a connection takes more than that.
	smallBody = 4 << 10
	// aheadTime is for how long a body of unknown length is read ahead. A live
	// one does not end before the backend answers.
	aheadTime = time.Second
	// talkTime is for how long that of a client is read ahead that talks with the
	// backend: one that says it all at once needs no longer.
	talkTime = 10 * time.Millisecond
)

// readAhead reads the request's body before the request asks for a place, so a slow upload
// holds neither a place nor a worker. If there is no room for the rest, or a body of unknown
// length takes too long, the rest is read while the backend reads. It returns false if the
// client did not send what it announced.
func (x *exchange) readAhead() bool {
	b, length := &x.client.body, x.request.ContentLength
	switch {
	case b.ReadCloser == nil || x.wantsToBeAsked() || x.life.WouldRefuse():
		return true
	case length >= 0 && length <= smallBody:
		b.readSmall(int(length))
	case !x.keepsRequest(length):
		return true
	default:
		buffer := &x.policy.Buffer
		b.kept = buffer.Store.Open(x.life.Who.Client, buffer.RequestMemory, buffer.Request)
		if length < 0 {
			b.readLive()
		} else {
			b.keepNow()
		}
	}
	return !b.broken.Load()
}

// wantsToBeAsked reports whether the body is the backend's to ask for: the client
// waits to be told to go on (RFC 9110, 10.1.1).
func (x *exchange) wantsToBeAsked() bool { return x.request.Header["Expect"] != nil }

// talks reports whether the client may wait for the backend's word before it goes on.
func (x *exchange) talks() bool {
	return strings.HasPrefix(x.request.Header.Get("Content-Type"), "application/grpc")
}

// keepsRequest reports whether a body of that length, negative if that is unknown,
// may be kept.
func (x *exchange) keepsRequest(length int64) bool {
	p := &x.policy.Buffer
	return p.Store != nil && p.Request > 0 && length <= p.Request
}

// refuseBody answers a client that did not send what it announced.
func (x *exchange) refuseBody() {
	if x.client.body.unsound.Load() {
		x.fail(telemetry.Refused, errorpage.UnsoundBody, "The request's body is not in chunks, although its head announces them.")
		return
	}
	x.fail(telemetry.ClientGone, errorpage.Incomplete, "The rest of the request did not come.")
}

// readSmall reads a small body whole.
func (b *body) readSmall(length int) {
	b.reading.Lock()
	defer b.reading.Unlock()
	b.ahead = make([]byte, 0, length)
	for !b.complete.Load() {
		n, err := b.fetch(b.ahead[len(b.ahead):cap(b.ahead)])
		if b.ahead = b.ahead[:len(b.ahead)+n]; err != nil || len(b.ahead) == length {
			return
		}
	}
}

// readLive keeps a body of unknown length, and waits for its end only for a
// while.
func (b *body) readLive() {
	ready := make(chan struct{})
	enough := sync.OnceFunc(func() { close(ready) })
	go func() {
		defer enough()
		b.keep(func(piece []byte) bool {
			took := b.kept.TryWrite(piece)
			if took == len(piece) {
				return true
			}
			enough()
			return b.wait(piece[took:])
		})
	}()
	limit := aheadTime
	if b.x.talks() {
		limit = talkTime
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ready:
	case <-timer.C:
	}
}

// keepNow keeps the body as long as there is room for it. The rest is read while the backend
// reads.
func (b *body) keepNow() {
	b.keep(func(piece []byte) bool {
		took := b.kept.TryWrite(piece)
		if took < len(piece) {
			rest := slices.Clone(piece[took:])
			go func() {
				if b.wait(rest) {
					b.keep(b.wait)
				}
			}()
		}
		return took == len(piece)
	})
}

// wait keeps a piece when there is room for it. It returns false if the body is no longer
// wanted.
func (b *body) wait(piece []byte) bool {
	_, err := b.kept.Write(piece)
	return err == nil
}

// keep reads the body to its end, unless write returns false.
func (b *body) keep(write func(piece []byte) bool) {
	h := b.x.handler
	piece := h.pieces.get(false)
	defer func() { h.pieces.put(piece) }()
	for {
		b.reading.Lock()
		n, err := b.fetch(piece)
		b.reading.Unlock()
		if !write(piece[:n]) {
			return
		}
		if err != nil {
			b.kept.CloseWrite(err)
			return
		}
		piece = h.pieces.fit(piece, n >= smallPiece)
	}
}

// noticeBroken has a request that waits end if its client is seen not to send all of its
// body. Called by Drive alone.
func (x *exchange) noticeBroken() {
	if x.wait.broken == nil || !x.client.body.broken.Load() {
		return
	}
	select {
	case <-x.wait.broken:
	default:
		close(x.wait.broken)
	}
}

// body is a request's body, on its way from the client to the backend. It stops
// the meter while the backend has to wait for the client, and gives up on a
// client that sends nothing.
type body struct {
	io.ReadCloser
	x    *exchange
	conn interface{ SetReadDeadline(at time.Time) error }
	kept *spool.Spool // what was read ahead, and what comes after it; nil: nothing goes through it

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
	if err != nil && !errors.Is(err, io.EOF) && b.broken.Load() {
		b.x.orphan(time.Now())
	}
	return n, err
}

func (b *body) read(p []byte) (n int, err error) {
	if !b.complete.Load() {
		b.x.life.Pause(time.Now())
		defer func() { b.x.life.Resume(time.Now()) }()
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

// Close is called by the backend's side. The server closes the client's side, because it may
// wait for the rest.
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
	if err == nil || err == io.EOF {
		// Once the body is complete the exchange may end at any time, and the connection
		// wait for its next request.
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

// unread reports whether a request has a body that was not read to its end.
func (b *body) unread() bool { return b.ReadCloser != nil && !b.complete.Load() }

// isReady reports whether the body can be read without waiting for the client.
func (b *body) isReady() bool { return b.kept == nil && b.complete.Load() }

// end releases the connection. If the body was not wanted to its end, the server reads some
// more of it, so its client gets around to reading the answer; for that it needs the connection
// for itself.
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
