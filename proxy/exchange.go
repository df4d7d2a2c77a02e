package proxy

import (
	"net/http"
	"time"

	"tempomat/classify"
	"tempomat/limiter/quota"
	"tempomat/proxy/http1"
	"tempomat/proxy/lifecycle"
	"tempomat/proxy/roster"
	"tempomat/proxy/telemetry"
)

// exchange is one request and its answer.
type exchange struct {
	lifecycle.Life
	roster.Entry[exchange] // of who waits, or of what is at the backend

	conn    *connection
	client  client // nil: HTTP/2, of which the server says when it leaves
	policy  *Policy
	handler *Handler
	arrived time.Time
	request *http.Request
	writer  writer
	body    body
	asked   asked
	order   order
	relay   relay

	counted   quota.Counted
	head      int           // what of it is counted in heads
	broken    chan struct{} // closed when its body is seen to come to no end, while it waits; nil: it does not upload
	redirect  bool          // it is sent back for a newcomer's pass
	unsent    bool          // its body was seen to come to no end, while it waited
	forwarded time.Time
	work      work
	billed    billed

	outcome telemetry.Outcome
	held    time.Duration // for how long the client was kept from the end of its answer
	waits   time.Time     // since when, for a place
	told    told
	lowered *lowered      // its process has stepped down, or was to; see priorities
	stepDue time.Time     // when it may have to next; zero: it is not looked at yet
	stepAt  time.Duration // of what it has to have used then
	// Of a stream counts what it has used since stepSince, when it had used stepFrom.
	stepSince time.Time
	stepFrom  time.Duration
	lingers   bool      // see linger
	until     time.Time // it lingers
	record    telemetry.Record
	given     string // the id that a trusted proxy gave the request; empty: none did
	id        string // of the request: given, or told to a client that was not served
}

func (h *Handler) newExchange(now time.Time, w http.ResponseWriter, r *http.Request) *exchange {
	x := h.serve(r)
	x.policy, x.handler, x.arrived = h.policy.Load(), h, now
	x.client, _ = w.(client)
	x.writer = writer{ResponseWriter: w, x: x}
	if r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0 { // HTTP/2 gives an empty one
		x.body = body{ReadCloser: r.Body, x: x, conn: http.NewResponseController(w), trailer: trailers(r.Trailer)}
		x.request.Body = &x.body
	}
	return x
}

// classify finds out who asks.
func (x *exchange) classify() {
	var seen classify.Seen
	if x.client != nil {
		x.order = x.client.Names()
		seen.Fields = &x.order
	}
	x.Classify(x.arrived, x.handler.gate, &x.policy.Rules, x.request, seen)
	if x.Who.TrustedPeer {
		x.given = givenID(x.request.Header)
		x.id = x.given
	}
}

// look looks whether the client is still there.
func (x *exchange) look() {
	if x.client != nil {
		x.client.Look()
	}
}

// abandon ends an exchange whose client has gone, without an answer: one that is
// there after all is not to take an empty one for the backend's.
func (x *exchange) abandon() {
	x.outcome = telemetry.ClientGone
	panic(http.ErrAbortHandler)
}

// order is the names of a header's fields, as the client sent them.
type order []http1.Name

// Field implements classify.Fields.
func (o *order) Field(at int) string {
	if at < len(*o) {
		return (*o)[at].Canonical
	}
	return ""
}
