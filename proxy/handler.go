package proxy

import (
	"math"
	"net/http"
	"time"

	"tempomat/cpuaccount"
	"tempomat/limiter"
	"tempomat/proxy/connlimit"
	"tempomat/proxy/front"
	"tempomat/proxy/lifecycle"
	"tempomat/proxy/telemetry"
)

// NewHandler makes a Handler. Drive must run as well: it calls the limiter's Advance and Progress.
func NewHandler(l *limiter.Limiter, p *Policy, r telemetry.Recorder) *Handler {
	h := &Handler{limiter: l, gate: lifecycle.New(time.Now(), l), records: r, heads: connlimit.NewShare(mostHeads)}
	h.pieces.init()
	h.marks.init()
	h.bill.hurry = make(chan struct{}, 1)
	h.exchanges.New = func() any { return new(exchange) }
	h.pressure.Store(math.Float64bits(-1))
	h.policy.Store(p)
	return h
}

// Policy returns the current Policy.
func (h *Handler) Policy() *Policy { return h.policy.Load() }

// Guess returns the Estimator that guesses what requests will cost.
func (h *Handler) Guess() *cpuaccount.Estimator { return h.gate.Guess }

// SetPolicy sets the policy for requests that arrive from now on. Debts, held requests and connections stay.
func (h *Handler) SetPolicy(p *Policy) {
	h.limiter.SetPolicy(time.Now(), p.Limits)
	h.policy.Store(p)
}

// ServeHTTP handles one request from its arrival to its end.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := h.newExchange(time.Now(), w, r)
	defer h.finish(x)

	x.classify()
	switch {
	case !isSound(r):
		x.refuseUnsound()
	case endsHere(r):
		x.answerHere()
	case h.marks.isCircle(r): // it must not wait: the request that caused it holds a place, and waits for this one
		x.refuseCircle()
	case x.countRequest():
		x.refuseCount()
	case !x.takesHead():
		x.refuse()
	case !x.readAhead():
		x.refuseBody()
	case x.life.Who.Exempt || h.admit(x):
		h.forward(x)
		h.hold(x)
	case x.wait.redirect:
		x.sendBack()
	case x.wait.unsent:
		x.refuseBody()
	default:
		x.refuse()
	}
	x.client.writer.release()
}

// admit waits until the limiter has decided, and reports whether the request may go to the backend.
func (h *Handler) admit(x *exchange) bool {
	now := x.arrived
	if x.client.body.ReadCloser != nil {
		now = time.Now() // reading the body may have taken minutes
	}
	uploads := x.client.body.unread()
	if uploads {
		x.wait.broken = make(chan struct{})
	}
	x.wait.since = now
	x.life.Arrive(now, uploads)
	if h.awaitVerdict(x); x.wait.redirect || x.wait.unsent || !x.life.Admitted() {
		return false
	}
	if x.policy.holdsResponses() {
		x.client.writer.tail = h.pieces.get(smallPiece)[:0]
	}
	return true
}

// awaitVerdict waits for the limiter's decision. Most requests already have it. They share one closed channel,
// which is checked first and alone, because a select over several channels would lock each of them.
func (h *Handler) awaitVerdict(x *exchange) {
	select {
	case <-x.life.Decided():
	default:
		h.waiting.Add(&x.listed, x)
		defer x.listed.Remove()
		due, stop := x.redirectDue()
		defer stop()
		select {
		case <-x.life.Decided():
		case <-due:
			x.wait.redirect = true
		case <-x.request.Context().Done():
			if !x.life.Who.Own || x.wait.broken != nil {
				x.abandon() // doesn't return
			}
			<-x.life.Decided()
		case <-x.wait.broken:
			x.wait.unsent = true
		}
	}
}

// forward forwards the request to the backend, and measures its cost while it runs.
func (h *Handler) forward(x *exchange) {
	x.backend.since = time.Now()
	if x.client.body.unread() {
		x.client.writer.renew(x.backend.since) // a 100 Continue may have to be written
	}
	x.life.Begin(x.backend.since)
	x.client.conn.call.Begin()
	x.giveNumber()
	h.running.Add(&x.listed, x)
	h.bill.expect(x)
	defer h.backendEnded(x)
	x.log.outcome = telemetry.BackendBroke // set until the answer is complete
	x.policy.Upstream.forward(x)
	if x.log.outcome == telemetry.BackendBroke {
		x.log.outcome = telemetry.Answered
	}
}

// backendEnded runs when forward ends, even by a panic. If the backend has finished, the request is already
// settled.
func (h *Handler) backendEnded(x *exchange) {
	switch {
	case x.log.outcome == telemetry.BackendSlow, x.log.outcome == telemetry.BackendDown: // the backend failed before the client disconnected
	case x.backend.work.late.Load():
		x.log.outcome = telemetry.BackendSlow
	case x.gone():
		x.log.outcome = telemetry.ClientGone
	}
	if x.backend.settled.Load() {
		return
	}
	if now := time.Now(); !h.linger(now, x) {
		h.settle(now, x, x.log.outcome == telemetry.Answered)
	}
}

// hold keeps the end of the response back until the client's classes have paid for it, or the client
// disconnects.
func (h *Handler) hold(x *exchange) {
	if x.life.HoldFor <= 0 || x.log.outcome == telemetry.ClientGone || x.client.writer.status == http.StatusSwitchingProtocols {
		return
	}
	from := time.Now()
	for x.request.Context().Err() == nil {
		if x.log.held = time.Since(from); x.log.held >= x.life.HoldFor {
			return
		}
		select {
		case <-time.After(min(tick, x.life.HoldFor-x.log.held)):
			x.look()
		case <-x.request.Context().Done():
		}
	}
	x.log.held = time.Since(from)
	x.abandon() // a client that has closed only its sending side gets no end of the response either
}

// finish removes the request from the limiter and records it.
func (h *Handler) finish(x *exchange) {
	now := time.Now()
	x.client.writer.renew(now) // the server still sends the end of the response
	x.client.body.end(now)
	x.leaveHead()
	if !x.backend.lingers {
		x.life.Leave(now)
	}
	h.records.Note(now, x.recorded(now))
	h.recycle(x)
}

// recorded returns the record of an exchange that is over.
func (x *exchange) recorded(now time.Time) *telemetry.Record {
	x.log.record = telemetry.Record{
		Arrived: x.arrived, Request: x.request, Who: &x.life.Who, Verdict: x.life.Verdict, Group: x.group(), Outcome: x.log.outcome,
		Status: x.client.writer.status, Bytes: x.client.writer.bytes, Guess: x.life.Guess, Cost: x.life.Cost, Held: x.log.held, Orphan: x.life.IsOrphan(),
		Judged: x.policy.Standing != nil, Limit: x.counted.Limit, ID: x.id, Access: x.policy.Access,
		Told: x.log.told.cost, ToldWasted: x.log.told.wasted, Queued: x.queued(now),
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

// queued returns how long a request that never went to the backend has waited.
func (x *exchange) queued(now time.Time) time.Duration {
	if x.wait.since.IsZero() || !x.backend.since.IsZero() {
		return 0
	}
	return now.Sub(x.wait.since)
}

func (h *Handler) newExchange(now time.Time, w http.ResponseWriter, r *http.Request) *exchange {
	var x *exchange
	conn := remembered(r.Context())
	if conn == nil {
		x = &exchange{client: clientSide{conn: &connection{}}}
	} else {
		x = h.exchanges.Get().(*exchange)
		if r.ProtoMajor != 1 { // streams of HTTP/2 run concurrently, so they can't share this state
			conn = &connection{local: conn.local, closing: conn.closing}
		}
		x.client.conn, x.pooled = conn, true
	}
	x.request, x.policy, x.handler, x.arrived = r, h.policy.Load(), h, now
	x.client.writer = writer{served: w.(served), x: x} //nolint:forcetypeassert // both writers of package front implement it
	if s, ok := w.(*front.Stream); ok {
		s.Bound((*unread)(x))
	}
	if r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0 { // over HTTP/2, Body may be empty instead
		x.client.body = body{ReadCloser: r.Body, x: x, conn: &x.client.writer}
		r.Body = &x.client.body
	}
	return x
}

// recycle makes the exchange available to another request, except in three cases: the backend's side may
// still read the request's body for a moment after the answer is complete; the copying of an upgraded
// connection may not have ended yet; and a request that lingers still has its place.
func (h *Handler) recycle(x *exchange) {
	switch {
	case !x.pooled:
	case x.backend.lingers:
		x.client.writer.Keep()
	case x.client.body.ReadCloser == nil && x.client.writer.status != http.StatusSwitchingProtocols:
		fields, ticket := x.backend.asked.fields.Emptied(), x.life.Spare()
		*x = exchange{}
		x.backend.asked.fields = fields
		x.life.Reuse(ticket)
		h.exchanges.Put(x)
	}
}

// classify determines the client and its classes.
func (x *exchange) classify() {
	x.life.Classify(x.arrived, x.handler.gate, &x.policy.Rules, x.request, x.isOwn)
	if x.life.Who.TrustedPeer {
		x.given = givenID(x.request.Header)
		x.id = x.given
	}
}

// tick is how often running requests are charged for the CPU time that they have used since the last
// tick. A request that uses more than was guessed is noticed after this time.
const tick = 100 * time.Millisecond
