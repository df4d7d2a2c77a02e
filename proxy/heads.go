package proxy

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"tempomat/limiter"
	"tempomat/proxy/errorpage"
	"tempomat/proxy/subscriber"
	"tempomat/proxy/telemetry"
)

const (
	// usualHead is how much a header may take that nobody counts, in bytes: as much as a
	// connection is reckoned to take before it has a request.
	usualHead = 8 << 10
	// fieldSize is what a line takes beside its text, in bytes.
	fieldSize = 128
	// streamSize is what a stream of HTTP/2 takes that has not sent all of its body, in bytes: a
	// connection has 250 of them, and counts as one.
	streamSize = 12 << 10
	// unreadSize is what a stream of HTTP/2 takes whose client does not read its answer, in bytes.
	unreadSize = 24 << 10
	// fewStreams is how many of a connection's are not counted.
	fewStreams = 8
	// mostHeads is how much all that is counted may take, unless BoundHeads says more.
	mostHeads = 64 << 20
	// headPart: one client may have the headPart-th part of what the others leave.
	headPart = 16
)

// heads bounds the memory that large headers take until their requests are over: a client
// that sends its body byte by byte, or does not read its answer, holds its own for as long as
// it likes, and in HTTP/2 a byte may stand for a field of 4 KB. Its methods may be called
// concurrently.
type heads struct {
	mu   sync.Mutex // guards the following
	most int
	all  int
	of   map[netip.Addr]int
}

func newHeads() *heads { return &heads{most: mostHeads, of: make(map[netip.Addr]int)} }

// bound changes how much there is.
func (h *heads) bound(most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.most = most
}

// enter takes so much for a client. If there is no room, full tells whether others have it.
func (h *heads) enter(client netip.Addr, size int) (ok, full bool) {
	client = subscriber.Of(client)
	h.mu.Lock()
	defer h.mu.Unlock()
	own := h.of[client]
	if left := h.most - h.all; size > left || own+size > (left+own)/headPart {
		return false, own == 0
	}
	h.all += size
	h.of[client] = own + size
	return true, false
}

// leave gives it back.
func (h *heads) leave(client netip.Addr, size int) {
	client = subscriber.Of(client)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all -= size
	if h.of[client] -= size; h.of[client] == 0 {
		delete(h.of, client)
	}
}

// BoundHeads says how many bytes all large headers, and answers that are not read, together may take.
func (h *Handler) BoundHeads(most int) { h.heads.bound(most) }

// sizeOf is what of a request is counted; 0: it is no more than usual.
func sizeOf(r *http.Request, uploads bool) (size int) {
	for name, values := range r.Header {
		for _, v := range values {
			size += len(name) + len(v) + fieldSize
		}
	}
	if size += len(r.RequestURI); uploads && r.ProtoMajor == 2 {
		size += streamSize
	}
	if size <= usualHead {
		return 0
	}
	return size
}

// takesHead tells whether there is room for the request's header.
func (x *exchange) takesHead() bool {
	size := sizeOf(x.request, x.body.ReadCloser != nil)
	if size == 0 {
		return true
	}
	ok, full := x.handler.heads.enter(x.Who.Client, size)
	if ok {
		x.head = size
		return true
	}
	x.Verdict = limiter.Verdict{Action: limiter.Refuse, Reason: limiter.ServerFull, Wait: time.Second}
	if keys := x.Who.Keys(); !full && len(keys) > 0 {
		x.Verdict.Reason, x.Verdict.Key = limiter.ClientFull, keys[0]
	}
	return false
}

// takesStream tells whether there is room for an answer over HTTP/2, which its client reads when it likes;
// of a connection that has many.
func (x *exchange) takesStream() bool {
	if x.head > 0 || !x.conn.isCrowded() {
		return true
	}
	ok, _ := x.handler.heads.enter(x.Who.Client, unreadSize)
	if ok {
		x.head = unreadSize
	}
	return ok
}

// leaveHead says that the header is not counted any more.
func (x *exchange) leaveHead() {
	if x.head > 0 {
		x.handler.heads.leave(x.Who.Client, x.head)
		x.head = 0
	}
}

// refuseHead answers a request for whose header there is no room.
func (x *exchange) refuseHead() {
	x.outcome = telemetry.Refused
	p := refusal{cause: errorpage.ServerFull, Detail: "This server has as many requests with long headers as it can hold.", RetryAfter: jitter(x.Verdict.Wait)}
	if x.Verdict.Reason == limiter.ClientFull {
		p.cause, p.Detail = errorpage.ClientFull, "Too many requests of yours with long headers are under way."
	}
	x.answer(&p)
}
