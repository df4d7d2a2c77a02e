package proxy

import (
	"slices"
	"strings"
	"sync"
	"time"

	"tempomat/proxy/errorpage"
	"tempomat/proxy/telemetry"
)

const (
	// smallBody is the largest body, in bytes, that is read ahead to memory that
	// nobody rations: a connection takes more than that.
	smallBody = 4 << 10
	// aheadTime is for how long a body of unknown length is read ahead. A live
	// one does not end before the backend answers.
	aheadTime = time.Second
	// talkTime is for how long that of a client is read ahead that talks with the
	// backend: one that says it all at once needs no longer.
	talkTime = 10 * time.Millisecond
)

// readAhead reads the request's body before the request asks for a place, so
// that a slow upload holds none, nor a worker. What there is no room
// for, and what comes too late of a body of unknown length, comes while the
// backend reads. It returns false if the client did not send what it announced.
func (x *exchange) readAhead() bool {
	b, length := &x.body, x.request.ContentLength
	switch {
	case b.ReadCloser == nil || x.wantsToBeAsked() || x.WouldRefuse():
		return true
	case length >= 0 && length <= smallBody:
		b.readSmall(int(length))
	case !x.keepsRequest(length):
		return true
	default:
		buffer := &x.policy.Buffer
		b.kept = buffer.Store.Open(x.Who.Client, buffer.RequestMemory, buffer.Request)
		if length < 0 {
			b.readLive()
		} else {
			b.keepNow()
		}
	}
	return !b.broken.Load()
}

// wantsToBeAsked tells whether the body is the backend's to ask for: the client
// waits to be told to go on (RFC 9110, 10.1.1).
func (x *exchange) wantsToBeAsked() bool { return x.request.Header["Expect"] != nil }

// talks tells whether the client may wait for the backend's word before it goes on.
func (x *exchange) talks() bool {
	return strings.HasPrefix(x.request.Header.Get("Content-Type"), "application/grpc")
}

// keepsRequest tells whether a body of that length, negative if that is unknown,
// may be kept.
func (x *exchange) keepsRequest(length int64) bool {
	p := &x.policy.Buffer
	return p.Store != nil && p.Request > 0 && length <= p.Request
}

// refuseBody answers a client that did not send what it announced.
func (x *exchange) refuseBody() {
	if x.body.unsound.Load() {
		x.fail(telemetry.Refused, errorpage.UnsoundBody, "The request's body is not in chunks, as its head says.")
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
	patience := aheadTime
	if b.x.talks() {
		patience = talkTime
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-ready:
	case <-timer.C:
	}
}

// keepNow keeps the body as long as there is room for it. What there is none
// for comes while the backend reads.
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

// wait keeps a piece when there is room for it. It returns false if nobody wants
// the body any more.
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
// body. Called by the Driver alone.
func (x *exchange) noticeBroken() {
	if x.broken == nil || !x.body.broken.Load() {
		return
	}
	select {
	case <-x.broken:
	default:
		close(x.broken)
	}
}
