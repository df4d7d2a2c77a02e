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

	"tempomat/proxy/backend"
	"tempomat/proxy/errorpage"
	"tempomat/proxy/http1"
	"tempomat/proxy/spool"
	"tempomat/proxy/telemetry"
)

const (
	// smallBody is the largest body, in bytes, that is read ahead into memory outside the buffers' budget,
	// because a connection takes more memory than that anyway.
	smallBody = 4 << 10
	// aheadTime is how long a body of unknown length is read ahead. It is bounded because the client may wait
	// for the backend's answer before it ends its body.
	aheadTime = time.Second
	// talkTime replaces aheadTime for a client that may wait for parts of the answer before it sends more. A
	// client that sends its whole body at once doesn't take longer than this.
	talkTime = 10 * time.Millisecond
)

// readAhead reads the request's body before the request asks for a place, so a slow upload holds
// neither a place nor a worker. If there is no room for all of it, or a body of unknown length takes too
// long, the rest is read while the backend reads. It returns false if the client stopped
// before the end of the body, or sent an invalid one.
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
		b.readKept(length < 0)
	}
	return !b.broken.Load()
}

// wantsToBeAsked reports whether the client sends its body only after a 100 Continue (RFC 9110, 10.1.1),
// which the backend sends.
func (x *exchange) wantsToBeAsked() bool { return x.request.Header["Expect"] != nil }

// talks reports whether the client may wait for a part of the answer before it sends more of its body.
func (x *exchange) talks() bool {
	return strings.HasPrefix(x.request.Header.Get("Content-Type"), "application/grpc")
}

// keepsRequest reports whether a body of that length may be kept in a spool. Negative lengths are unknown.
func (x *exchange) keepsRequest(length int64) bool {
	p := &x.policy.Buffer
	return p.Store != nil && p.Request > 0 && length <= p.Request
}

// refuseBody answers a client that stopped before the end of its body.
func (x *exchange) refuseBody() {
	if x.client.body.unsound.Load() {
		x.fail(telemetry.Refused, errorpage.UnsoundBody)
		return
	}
	x.fail(telemetry.ClientGone, errorpage.Incomplete)
}

// readSmall reads a small body into memory.
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

// readKept reads the body into the spool until the body is complete or the spool has no more room. It reads a live
// body, whose length is unknown, only for a limited time. Another goroutine reads the rest while the backend reads.
func (b *body) readKept(live bool) {
	if !live {
		if left := b.keep(b.kept.TryWrite); left != nil {
			go b.keepRest(left)
		}
		return
	}
	ready := make(chan struct{})
	go func() {
		left := b.keep(b.kept.TryWrite)
		close(ready)
		if left != nil {
			b.keepRest(left)
		}
	}()
	most := aheadTime
	if b.x.talks() {
		most = talkTime
	}
	select {
	case <-ready:
	case <-time.After(most):
	}
}

// keepRest spools the bytes in left, and then the rest of the body, as the backend's reading makes room.
func (b *body) keepRest(left []byte) {
	wait := func(piece []byte) int {
		n, _ := b.kept.Write(piece) // writes less only if the body is no longer wanted
		return n
	}
	if wait(left) == len(left) {
		b.keep(wait)
	}
}

// keep reads the body to its end and passes it to write, which returns how many bytes it took. If write takes
// only part of a piece, keep stops and returns the bytes that are left.
func (b *body) keep(write func(piece []byte) int) (left []byte) {
	h := b.x.handler
	piece := h.pieces.get(smallPiece)
	defer func() { h.pieces.put(piece) }()
	for {
		b.reading.Lock()
		n, err := b.fetch(piece)
		b.reading.Unlock()
		if took := write(piece[:n]); took < n {
			return slices.Clone(piece[took:n]) // the next fetch returns err again
		}
		if err != nil {
			b.kept.CloseWrite(err)
			return nil
		}
		piece = h.pieces.fit(piece, n >= smallPiece)
	}
}

// noticeBroken ends the wait of a request whose client stopped before the end of its body. Only Drive calls it.
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

// body is a request's body, on its way from the client to the backend. It stops the meter while the
// backend waits for the client, unless backends usually ignore the body: a client that withholds it would compute
// for nothing. It ends the request of a client that sends nothing for too long.
type body struct {
	io.ReadCloser
	x    *exchange
	conn interface{ SetReadDeadline(at time.Time) error }
	kept *spool.Spool // spool that the body goes through; nil: none

	reading sync.Mutex // held by a Read, which may wait for the client; guards the fields below
	ahead   []byte     // bytes of a small body that were read ahead

	mu    sync.Mutex // guards the fields below, and the connection's read deadline
	ended bool       // whether the exchange is over, so the connection may serve another one

	complete atomic.Bool // whether the body was read to its end
	broken   atomic.Bool // whether the client stopped before the end of the body
	unsound  atomic.Bool // whether the client sent an invalid body
}

// Read implements io.Reader for the backend's side, which may call it shortly after the end of the exchange.
func (b *body) Read(p []byte) (n int, err error) {
	n, err = b.read(p)
	if err != nil && !errors.Is(err, io.EOF) && b.broken.Load() {
		b.x.orphan(time.Now())
	}
	return n, err
}

func (b *body) read(p []byte) (n int, err error) {
	if !b.complete.Load() && !backend.ExpectsNoBody(b.x.request.Method) {
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

// Close is called by the backend's side. It doesn't close the client's side, because the server may still
// wait for the rest of the body.
func (b *body) Close() error {
	if b.kept != nil {
		b.kept.Close()
	}
	return nil
}

// fetch reads from the client. b.reading is held.
func (b *body) fetch(p []byte) (int, error) {
	if b.complete.Load() {
		return 0, io.EOF // the server's body may already be closed
	}
	if !b.limit(time.Now().Add(b.x.policy.Body)) {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.ReadCloser.Read(p)
	if err == nil || err == io.EOF {
		// From now on the exchange may end at any time, and the connection may wait for its next request.
		// A deadline of this body must not interrupt that wait.
		b.limit(time.Time{})
	}
	b.complete.Store(err == io.EOF)
	b.unsound.Store(errors.Is(err, http1.ErrMalformed))
	b.broken.Store(err != nil && err != io.EOF)
	return n, err
}

// limit sets the time by which the client must send something. It returns false if the exchange is over.
func (b *body) limit(until time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return false
	}
	_ = b.conn.SetReadDeadline(until) // if it fails, a client that sends nothing is only noticed later
	return true
}

// unread reports whether a request has a body that was not read to its end.
func (b *body) unread() bool { return b.ReadCloser != nil && !b.complete.Load() }

// isReady reports whether the body can be read without waiting for the client.
func (b *body) isReady() bool { return b.kept == nil && b.complete.Load() }

// end makes sure that this body no longer uses the connection. If the body was not read to its end, the
// server then reads some more of it, because some clients read the answer only after they have sent
// everything.
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
	_ = b.conn.SetReadDeadline(now) // wakes a Read in progress
	b.reading.Lock()
	defer b.reading.Unlock()
	_ = b.conn.SetReadDeadline(time.Time{}) // the server has limits of its own
}
