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
	life   lifecycle.Life         // what is decided of it
	listed roster.Entry[exchange] // among what waits, or what is at the backend

	handler *Handler
	policy  *Policy
	request *http.Request
	arrived time.Time
	given   string // the id that a trusted proxy gave the request; empty: none did
	id      string // of the request: given, or told to a client that was not served
	counted quota.Counted
	pooled  bool // it serves another request afterwards

	client  clientSide
	wait    waiting
	backend backendSide
	kernel  kernelSide
	log     logged
}

// clientSide is what an exchange has to do with its client.
type clientSide struct {
	conn   *connection
	http1  http1Request // nil: HTTP/2, of which the server says when the client leaves
	writer writer
	body   body
	order  order
	room   int // what the request takes of the clients' memory for headers, in bytes
}

// waiting is how it waits for a place at the backend.
type waiting struct {
	since    time.Time
	broken   chan struct{} // closed when its body is seen to come to no end, while it waits; nil: it does not upload
	redirect bool          // it is sent back for a newcomer's pass
	unsent   bool          // its body was seen to come to no end, while it waited
}

// backendSide is what an exchange has to do with the backend.
type backendSide struct {
	since   time.Time // it was asked; zero: it was not
	asked   asked
	relay   relay
	work    work
	lingers bool      // see linger
	until   time.Time // it lingers
}

// kernelSide is what the kernel tells of the process that serves the request, and its priority.
type kernelSide struct {
	billed  billed
	lowered *lowered      // the process has stepped down, or was to; see priorities
	stepDue time.Time     // when it may have to next; zero: it is not looked at yet
	stepAt  time.Duration // of what it has to have used then
	// Of a stream counts what it has used since streamSince, when it had used streamFrom.
	streamSince time.Time
	streamFrom  time.Duration
}

// logged is what is on record of it.
type logged struct {
	outcome telemetry.Outcome
	held    time.Duration // for how long the client was kept from the end of its answer
	told    told
	record  telemetry.Record
}

func (h *Handler) newExchange(now time.Time, w http.ResponseWriter, r *http.Request) *exchange {
	var x *exchange
	conn := remembered(r.Context())
	switch {
	case conn == nil:
		x = &exchange{client: clientSide{conn: &connection{}}}
	case r.ProtoMajor != 1: // its streams have nothing in common
		x = &exchange{client: clientSide{conn: &connection{closing: conn.closing, of: conn}}}
	default:
		x = h.exchanges.Get().(*exchange)
		x.client.conn, x.pooled = conn, true
	}
	x.request, x.policy, x.handler, x.arrived = r, h.policy.Load(), h, now
	x.client.http1, _ = w.(http1Request)
	x.client.writer = writer{ResponseWriter: w, x: x}
	if r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0 { // HTTP/2 gives an empty one
		x.client.body = body{ReadCloser: r.Body, x: x, conn: http.NewResponseController(w), trailer: trailers(r.Trailer)}
		r.Body = &x.client.body
	}
	return x
}

// classify finds out who asks.
func (x *exchange) classify() {
	var seen classify.Seen
	if x.client.http1 != nil {
		x.client.order = x.client.http1.Names()
		seen.Fields = &x.client.order
	}
	x.life.Classify(x.arrived, x.handler.gate, &x.policy.Rules, x.request, seen)
	if x.life.Who.TrustedPeer {
		x.given = givenID(x.request.Header)
		x.id = x.given
	}
}

// look looks whether the client is still there.
func (x *exchange) look() {
	if x.client.http1 != nil {
		x.client.http1.Look()
	}
}

// abandon ends an exchange whose client has gone, without an answer: one that is
// there after all is not to take an empty one for the backend's.
func (x *exchange) abandon() {
	if !x.backend.since.IsZero() {
		x.orphan(time.Now())
	}
	x.log.outcome = telemetry.ClientGone
	abort()
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
	deadline time.Time     // for writing, as it was set last
	closing  *closing      // of the server; nil: never
	came     *front.Turned // what it is, of HTTP/2; nil: it is HTTP/1

	of      *connection   // what a stream of HTTP/2 is of
	bounded *h2bound.Conn // of HTTP/2; nil: it is HTTP/1

	call backend.Call // to the backend; the client's leaving does not end it
}

type connectionKey struct{}

// http1Request is the server's side of an exchange over HTTP/1.
type http1Request interface {
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

// recycle lets another request use the exchange. Not that of one with a body, which may be
// read for a moment after the answer is complete, not that of an upgrade, and not one
// that lingers.
func (h *Handler) recycle(x *exchange) {
	switch {
	case !x.pooled:
	case x.backend.lingers:
		if x.client.http1 != nil {
			x.client.http1.Keep()
		}
	case x.client.body.ReadCloser == nil && x.client.writer.status != http.StatusSwitchingProtocols:
		fields, ticket := x.backend.asked.fields.Emptied(), x.life.Spare()
		*x = exchange{}
		x.backend.asked.fields = fields
		x.life.Reuse(ticket)
		h.exchanges.Put(x)
	}
}

// recorded is what is told of an exchange that is over.
func (x *exchange) recorded(now time.Time, shard uint8) *telemetry.Record {
	x.log.record = telemetry.Record{
		Arrived: x.arrived, Request: x.request, Who: &x.life.Who, Verdict: x.life.Verdict, Group: x.group(), Outcome: x.log.outcome,
		Status: x.client.writer.status, Bytes: x.client.writer.bytes, Guess: x.life.Guess, Cost: x.life.Cost, Held: x.log.held, Orphan: x.life.IsOrphan(),
		Judged: x.policy.Standing != nil, Limit: x.counted.Limit, ID: x.id, Access: x.policy.Access,
		Told: x.log.told.cost, ToldWasted: x.log.told.wasted, Queued: x.queued(now), Shard: shard,
	}
	if !x.counted.Blocked {
		x.log.record.Limit = ""
	}
	if x.log.record.Remarkable() {
		x.identify()
		x.log.record.ID = x.id
	}
	return &x.log.record
}

// queued is for how long it waited if it was never let go.
func (x *exchange) queued(now time.Time) time.Duration {
	if x.wait.since.IsZero() || !x.backend.since.IsZero() {
		return 0
	}
	return now.Sub(x.wait.since)
}

// group is whom it counts among. Once it has arrived it may be called at any time.
func (x *exchange) group() telemetry.Group {
	switch {
	case x.life.Who.Exempt:
		return telemetry.Exempt
	case x.life.Who.Robot:
		return telemetry.Robot
	case x.life.Known() || x.life.Who.Evidence.Proves():
		return telemetry.Known
	case x.life.Passed():
		return telemetry.Newcomer
	}
	return telemetry.Stranger
}
