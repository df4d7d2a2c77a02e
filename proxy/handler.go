package proxy

import (
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"tempomat/cpuaccount"
	"tempomat/limiter"
	"tempomat/proxy/errorpage"
	"tempomat/proxy/lifecycle"
	"tempomat/proxy/roster"
	"tempomat/proxy/spool"
	"tempomat/proxy/subscriber"
	"tempomat/proxy/telemetry"
)

// Handler is the sidecar: it decides when a request may go to the backend, and
// charges its keys with what it cost there.
type Handler struct {
	policy  atomic.Pointer[Policy]
	limiter *limiter.Limiter
	gate    *lifecycle.Gatekeeper
	waiting roster.Roster[exchange]
	crowd   int // how many waited when the Driver looked last
	running roster.Roster[exchange]
	records telemetry.Recorder
	nearby  *telemetry.Nearby
	learnt  learnt
	tails   sync.Pool // of *[tailSize]byte
	pieces  pieces
	// exchanges are to be used again.
	exchanges sync.Pool
	passes    atomic.Int64      // of the Driver
	heads     *subscriber.Share // see mostHeads
	bill      bill

	marks      marks
	priorities priorities
	pressure   atomic.Uint64 // the bits of Pressure
}

// NewHandler makes a Handler. Its limiter's Advance and Progress are called by Drive,
// which has to run beside it.
func NewHandler(l *limiter.Limiter, p *Policy, r telemetry.Recorder) *Handler {
	h := &Handler{limiter: l, gate: lifecycle.New(time.Now(), l), records: r, nearby: telemetry.NewNearby(), heads: subscriber.NewShare(mostHeads)}
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
	if x.request.ProtoMajor == 1 && x.client.body.unread() {
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
	case x.log.outcome == telemetry.BackendSlow:
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
	x.abandon() // who closes half of the connection gets no end either
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

// Policy is one configuration, made ready for the request path. It is never
// changed, only replaced: a request sees one Policy from its first byte to its
// last.
type Policy struct {
	lifecycle.Rules
	Limits   limiter.Policy
	Requests RequestLimits // nil: none
	Upstream *Upstream     // the backend
	Access   telemetry.Access
	Body     time.Duration // longest pause inside a request's body
	Write    time.Duration // longest time that a client takes to accept a piece of the response
	Upgrade  time.Duration // longest time without a byte in either direction after an upgrade
	Buffer   Buffer        // what bodies are kept in while they wait

	// Unavailable are classes whose refusals have status 503, as other gatekeepers have it.
	Unavailable map[string]bool

	Pages     *errorpage.Set // what browsers are shown where the proxy itself answers; nil: plain text
	RobotsTxt []byte         // the answer to /robots.txt; nil: the backend's

	Hops
}

// Buffer is where bodies wait, and how much of each, in bytes: in memory, and
// in all. A Request or a Response of 0, or no Store, means that nothing of it is
// kept: it streams.
type Buffer struct {
	Store                    *spool.Store
	RequestMemory, Request   int64
	ResponseMemory, Response int64
}

// holdsResponses tells whether the end of responses may have to be kept back.
func (p *Policy) holdsResponses() bool { return p.Limits.Mode == limiter.Cooperative }
