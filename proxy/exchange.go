package proxy

import (
	"context"
	"net"
	"net/http"
	"time"

	"tempomat/classify"
	"tempomat/limiter/quota"
	"tempomat/proxy/backend"
	"tempomat/proxy/front"
	"tempomat/proxy/h2bound"
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

// connection is what is remembered of a client's connection. With HTTP/1 its
// requests come one after the other, so that what one of them needed serves the
// next; with HTTP/2 they have nothing in common here.
type connection struct {
	deadline time.Time // for writing, as it was set last
	serving  *exchange
	closing  *closing      // of the server; nil: never
	came     *front.Turned // what it is, of HTTP/2; nil: it is HTTP/1

	of      *connection   // what a stream of HTTP/2 is of
	bounded *h2bound.Conn // of HTTP/2; nil: it is HTTP/1

	call backend.Call // to the backend; the client's leaving does not end it
}

type (
	connectionKey struct{}
	exchangeKey   struct{}
)

// client is the side of an exchange over HTTP/1 that the server has.
type client interface {
	// Look looks whether the client is still there; if not, the request's context ends.
	Look()
	// Keep says that the request is used after its end.
	Keep()
	// Names are those of the request's header, as they were written.
	Names() []http1.Name
}

// connContext prepares a connection that was accepted.
func connContext(ctx context.Context, c net.Conn, closing *closing) context.Context {
	boundUnsent(c)
	return keep(ctx, closing)
}

// keep has requests find what is remembered of their connection.
func keep(ctx context.Context, closing *closing) context.Context {
	return context.WithValue(ctx, connectionKey{}, &connection{closing: closing})
}

// remembered is what keep has requests find; nil: it was not called.
func remembered(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}

// isCrowded tells whether it is a stream of HTTP/2 beside so many others that it is counted.
func (c *connection) isCrowded() bool {
	return c.of != nil && c.of.bounded != nil && c.of.bounded.Streams() > fewStreams
}

// serve returns the exchange of a request, to be found by exchangeOf.
func (h *Handler) serve(r *http.Request) *exchange {
	c, ok := r.Context().Value(connectionKey{}).(*connection)
	if !ok || r.ProtoMajor != 1 {
		x := &exchange{conn: &connection{}}
		if ok {
			x.conn.closing, x.conn.of = c.closing, c
		}
		x.request = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
		return x
	}
	x := h.exchanges.Get().(*exchange)
	x.conn, x.request = c, r
	c.serving = x
	return x
}

// exchangeOf returns the exchange that a request belongs to.
func exchangeOf(r *http.Request) *exchange {
	if c, ok := r.Context().Value(connectionKey{}).(*connection); ok && c.serving != nil {
		return c.serving
	}
	return r.Context().Value(exchangeKey{}).(*exchange)
}

// done lets another request use the exchange. Not that of one with a body, which may be
// read for a moment after the answer is complete, not that of an upgrade, and not one
// that lingers.
func (h *Handler) done(x *exchange) {
	if x.conn.serving != x {
		return
	}
	x.conn.serving = nil
	switch {
	case x.lingers:
		if x.client != nil {
			x.client.Keep()
		}
	case x.body.ReadCloser == nil && x.writer.status != http.StatusSwitchingProtocols:
		fields, ticket := x.asked.fields.Emptied(), x.Spare()
		*x = exchange{}
		x.asked.fields = fields
		x.Reuse(ticket)
		h.exchanges.Put(x)
	}
}

// recorded is what is told of an exchange that is over.
func (x *exchange) recorded(now time.Time, shard uint8) *telemetry.Record {
	x.record = telemetry.Record{
		Arrived: x.arrived, Request: x.request, Who: &x.Who, Verdict: x.Verdict, Group: x.group(), Outcome: x.outcome,
		Status: x.writer.status, Bytes: x.writer.bytes, Guess: x.Guess, Cost: x.Cost, Held: x.held, Orphan: x.IsOrphan(),
		Judged: x.policy.Standing != nil, Limit: x.counted.Limit, ID: x.id, Access: x.policy.Access,
		Told: x.told.cost, ToldWasted: x.told.wasted, Queued: x.queued(now), Shard: shard,
	}
	if !x.counted.Blocked {
		x.record.Limit = ""
	}
	if x.record.Remarkable() {
		x.identify()
		x.record.ID = x.id
	}
	return &x.record
}

// queued is for how long it waited if it was never let go.
func (x *exchange) queued(now time.Time) time.Duration {
	if x.waits.IsZero() || !x.forwarded.IsZero() {
		return 0
	}
	return now.Sub(x.waits)
}

// group is whom it counts among. Once it has arrived it may be called at any time.
func (x *exchange) group() telemetry.Group {
	switch {
	case x.Who.Exempt:
		return telemetry.Exempt
	case x.Who.Robot:
		return telemetry.Robot
	case x.Known() || x.Who.Evidence.Proves():
		return telemetry.Known
	case x.Passed():
		return telemetry.Newcomer
	}
	return telemetry.Stranger
}
