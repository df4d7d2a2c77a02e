package proxy

import (
	"math"
	"net/http"
	"time"

	"tempomat/classify"
	"tempomat/cpuaccount"
	"tempomat/limiter"
	"tempomat/proxy/connlimit"
	"tempomat/proxy/lifecycle"
	"tempomat/proxy/telemetry"
)

// NewHandler makes a Handler. Its limiter's Advance and Progress are called by Drive,
// which has to run next to it.
func NewHandler(l *limiter.Limiter, p *Policy, r telemetry.Recorder) *Handler {
	h := &Handler{limiter: l, gate: lifecycle.New(time.Now(), l), records: r, nearby: telemetry.NewNearby(), heads: connlimit.NewShare(mostHeads)}
	h.tails.New = func() any { return new([tailSize]byte) }
	h.pieces.init()
	h.marks.init()
	h.bill.hurry = make(chan struct{}, 1)
	h.exchanges.New = func() any { return new(exchange) }
	h.pressure.Store(math.Float64bits(-1))
	h.policy.Store(p)
	return h
}

// Policy is the one in force.
func (h *Handler) Policy() *Policy { return h.policy.Load() }

// Guess is what requests are guessed by.
func (h *Handler) Guess() *cpuaccount.Estimator { return h.gate.Guess }

// SetPolicy puts another policy in force for requests that are still to come.
// Debts, held requests and connections survive.
func (h *Handler) SetPolicy(p *Policy) {
	h.limiter.SetPolicy(time.Now(), p.Limits)
	h.policy.Store(p)
}

// ServeHTTP is the life of one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := h.newExchange(time.Now(), w, r)
	defer h.finish(x)

	x.classify()
	switch {
	case !isSound(r):
		x.refuseUnsound()
	case endsHere(r):
		x.answerHere()
	case h.marks.isCircle(r): // and waits for nothing: what it comes from has a place already
		x.refuseCircle()
	case x.wantsRobots():
		x.sendRobots()
	case x.countRequest():
		x.refuseCount()
	case !x.takesHead():
		x.refuseHead()
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

// admit waits until the limiter has decided, and tells whether the request may
// go to the backend.
func (h *Handler) admit(x *exchange) bool {
	now := x.arrived
	if x.client.body.ReadCloser != nil {
		now = time.Now() // reading it may have taken minutes
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
		x.client.writer.keepTail(&h.tails)
	}
	return true
}

// awaitVerdict returns at once for most: to select among several channels locks
// them, and those who need not wait share one.
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
			x.abandon()
		case <-x.wait.broken:
			x.wait.unsent = true
		}
	}
}

// forward has the backend answer, while the meter runs.
func (h *Handler) forward(x *exchange) {
	x.backend.since = time.Now()
	if x.client.body.unread() {
		x.client.writer.renew(x.backend.since) // the client may have to be asked for it
	}
	x.life.Begin(x.backend.since)
	x.client.conn.call.Begin()
	x.giveNumber()
	h.running.Add(&x.listed, x)
	h.bill.expect(x)
	defer h.backendEnded(x)
	x.log.outcome = telemetry.BackendBroke // unless it comes to an end
	x.policy.Upstream.forward(x)
	if x.log.outcome == telemetry.BackendBroke {
		x.log.outcome = telemetry.Answered
	}
}

// backendEnded runs when the answer has come to its end, even if it broke off by a
// panic. If the backend has finished, it was settled then.
func (h *Handler) backendEnded(x *exchange) {
	now := time.Now()
	switch {
	case x.log.outcome == telemetry.BackendSlow, x.log.outcome == telemetry.BackendDown: // before the client left
	case x.backend.work.late.Load():
		x.log.outcome = telemetry.BackendSlow
	case x.gone():
		x.log.outcome = telemetry.ClientGone
	}
	if !h.linger(now, x) {
		h.settle(now, x, x.log.outcome == telemetry.Answered)
	}
}

// hold keeps the end of the response back as long as the client's classes owe
// for it, but no longer than the client waits.
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
	x.abandon() // a client that closes half of the connection gets no end either
}

// finish takes the request out of the books.
func (h *Handler) finish(x *exchange) {
	now := time.Now()
	x.client.body.end(now)
	x.leaveHead()
	if !x.backend.lingers {
		x.life.Leave(now)
	}
	h.records.Note(now, x.recorded(now, h.nearby.Shard()))
	h.recycle(x)
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

func (h *Handler) newExchange(now time.Time, w http.ResponseWriter, r *http.Request) *exchange {
	var x *exchange
	conn := remembered(r.Context())
	if conn == nil {
		x = &exchange{client: clientSide{conn: &connection{}}}
	} else {
		x = h.exchanges.Get().(*exchange)
		if r.ProtoMajor != 1 { // its streams have nothing in common
			conn = &connection{closing: conn.closing}
		}
		x.client.conn, x.pooled = conn, true
	}
	x.request, x.policy, x.handler, x.arrived = r, h.policy.Load(), h, now
	x.client.writer = writer{served: w.(served), x: x}                  //nolint:forcetypeassert // both of front's are
	if r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0 { // HTTP/2 may give an empty one
		x.client.body = body{ReadCloser: r.Body, x: x, conn: &x.client.writer}
		r.Body = &x.client.body
	}
	return x
}

// recycle lets another request use the exchange. Not that of one with a body, which may be
// read for a moment after the answer is complete, not that of an upgrade, and not one
// that lingers.
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

// classify finds out who asks.
func (x *exchange) classify() {
	var seen classify.Seen
	if x.request.ProtoMajor == 1 { // in HTTP/2 the order says nothing of the client
		seen.Fields = x.client.writer.Asked()
	}
	x.life.Classify(x.arrived, x.handler.gate, &x.policy.Rules, x.request, seen)
	if x.life.Who.TrustedPeer {
		x.given = givenID(x.request.Header)
		x.id = x.given
	}
}

// tick is how often running requests are charged on. It bounds how much longer
// a misjudged request goes unnoticed, and what the meter's look at the crowd
// misses.
const tick = 100 * time.Millisecond
