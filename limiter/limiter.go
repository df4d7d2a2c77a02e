package limiter

import (
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"tempomat/limiter/account"
	"tempomat/limiter/known"
)

// Limiter keeps the accounts of all keys and decides when a request may go. It is a state machine: it starts
// no goroutine, reads no clock and never sleeps. Its caller passes in the time. All methods may be called
// concurrently, so it accepts times that are slightly out of order.
type Limiter struct {
	epoch   time.Time
	table   *table
	policy  atomic.Pointer[activePolicy]
	room    waitingRoom
	gate    *gate
	queued  atomic.Int32  // requests in the room's queues
	decided chan struct{} // closed; shared by all tickets that were decided on arrival
	due     chan struct{}
	sharer  Sharer

	policyMu  sync.Mutex // guards the fields below and the replacement of the policy; taken before all others
	instances int
}

// New makes a limiter that remembers about size keys. If s is nil, the limiter exchanges nothing with other
// instances.
func New(now time.Time, p Policy, size int, s Sharer) *Limiter {
	l := &Limiter{
		epoch:   now,
		room:    waitingRoom{of: make(map[*bucket]*queue)},
		table:   account.New[keyAtGate](size),
		decided: make(chan struct{}),
		due:     make(chan struct{}, 1),
		sharer:  s,

		instances: 1,
	}
	close(l.decided)
	var secret [16]byte
	_, _ = rand.Read(secret[:]) // never fails
	l.gate = newGate(known.New(now, secret))
	l.SetPolicy(now, p)
	return l
}

// Known remembers which clients aren't strangers.
type Known = known.Clients

// Known returns the memory of the clients that aren't strangers. Save it at the end of the program; load it at
// the start.
func (l *Limiter) Known() *Known { return l.gate.known }

// SetPolicy replaces the policy. Debts, queues and running requests are kept. A key earns at the old rate until
// now, and keeps its level, limited to the new burst. Keys of removed classes don't change until they are
// evicted.
func (l *Limiter) SetPolicy(now time.Time, p Policy) {
	l.policyMu.Lock()
	defer l.policyMu.Unlock()
	l.applyLocked(now, p)
}

func (l *Limiter) applyLocked(now time.Time, p Policy) {
	c := compile(p, l.instances)
	l.policy.Store(c)
	l.table.SetTerms(l.since(now), c.terms)
	l.gate.setPolicy(c)
	l.requestAdvance()
}

// Arrive admits a request to the limiter, and never blocks. It decides at once if it can; otherwise a later
// call, such as Settle or Advance, decides. Call Leave when the request is over, whatever the decision was.
func (l *Limiter) Arrive(now time.Time, a Arrival) *Ticket {
	at, p := l.since(now), l.policy.Load()
	t := a.ticket(at, p) // no lock is needed, because no other goroutine knows the ticket yet
	t.decided, t.decidedAtOnce = l.decided, true
	var debts [MaxKeys]debt
	t.lookup(at, l.table, &a, !p.gated || l.gate.waiting.Load() == 0, &debts)
	v, blocking := l.decide(p, t, debts[:t.n])
	if t.verdict = v; v.Refused() {
		t.refuseLocked(at, v)
		l.announce(now, t, Rejected)
		return t
	}
	t.enter(at, l.table, &a)
	if blocking == nil {
		l.admit(at, p, t)
	} else if !l.wait(at, p, t, blocking) {
		t.refuseLocked(at, Verdict{Action: Refuse, Wait: retry, Key: blocking.Key, Reason: ServerFull})
		l.announce(now, t, Rejected)
		return t
	}
	l.announce(now, t, Accepted)
	return t
}

// admit handles a request that no cap delays. If there is a gate, admit sends the request there. Otherwise, it
// charges the request and returns true.
func (l *Limiter) admit(at time.Duration, p *activePolicy, t *Ticket) (goes bool) {
	client := t.own().Bucket
	if !p.gated || client == nil {
		if client != nil {
			client.SetStanding(at, 1)
		}
		t.start(at)
		return true
	}
	share := client.SetStanding(at, t.standing) / p.Gate.CPUs
	if of := t.whole(); of != nil {
		of.Bucket.SetStanding(at, t.clientsBehind)
	}
	if l.gate.arrive(at, t, share) {
		l.requestAdvance() // no other request waits, so Advance must run when its longest wait ends
	}
	return false
}

// Progress charges a running request for the CPU time soFar, if that is more than it was charged before. The
// sooner a misjudged request is charged, the fewer similar ones start after it. If computes is true, the
// request is computing and takes room on the ladder; otherwise it only holds a worker. Then call Reguess for
// the waiting requests, and Advance, which starts those that may go.
func (l *Limiter) Progress(now time.Time, t *Ticket, soFar time.Duration, computes bool) {
	if t.client != nil {
		l.gate.progress(l.since(now), t, soFar.Seconds(), computes)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if x := soFar.Seconds(); t.state == running && x > t.charged {
		t.adjustLocked(l.since(now), x)
	}
}

// Settle replaces the charge for a request that ran with its measured cost, even if this puts its keys in
// debt. It returns how long to hold the response in cooperative mode, and 0 otherwise. Only the first call has
// an effect.
func (l *Limiter) Settle(now time.Time, t *Ticket, cost time.Duration) (hold time.Duration) {
	at, x := l.since(now), cost.Seconds()
	t.mu.Lock()
	if t.state != running {
		t.mu.Unlock()
		return 0
	}
	t.state = settled
	p := l.policy.Load()
	c, most := t.changeLocked(x), p.MaxHold
	if p.Mode == Observe {
		most = 0
	}
	t.each(func(s *reservation) { hold = max(hold, s.Settle(at, c, x, most)) })
	t.mu.Unlock()
	if t.client != nil {
		l.gate.finish(at, t, x)
	}
	l.offer(now, t, cost)
	l.wake()
	if hold > 0 && !l.holdResponse(p, t) {
		return 0 // the work is done, and sending the response now is better than discarding it
	}
	return hold
}

// Leave ends a request that was answered or whose client disconnected. A request that was never settled counts
// as one that never ran, so its whole charge is given back.
func (l *Limiter) Leave(now time.Time, t *Ticket) {
	at := l.since(now)
	if t.waitEntry != nil {
		l.dismiss(at, t)
	}
	if t.client != nil {
		l.gate.abandon(at, t)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state == waiting || t.state == running {
		wait := float32(0)
		if t.state == waiting {
			wait = t.atGate(at) // its client gave up, so its wait ends here
		}
		t.each(func(s *reservation) { s.Leave(at, wait) })
		l.wake()
	}
	t.state = over
}

// since converts a time to the limiter's own clock.
func (l *Limiter) since(now time.Time) time.Duration { return now.Sub(l.epoch) }

// Forgive clears a key's debt and its client's lead at the gate. It returns the debt, in CPU-seconds, and
// whether the key is known. Running requests are still charged their cost when they end. Requests that wait at
// the gate keep their rank; those that wait for the debt to be paid start. Other instances keep the debt,
// because no Sharer can take back a charge.
func (l *Limiter) Forgive(now time.Time, k Key) (forgiven float64, known bool) {
	at := l.since(now)
	forgiven, b := l.table.Forgive(at, k)
	if b != nil {
		l.gate.forgive(b.Value.client.Load())
	}
	l.requestAdvance()
	return forgiven, b != nil
}

// forgive clears the lead of a client, and of all clients without a session behind its address, at each site.
func (g *gate) forgive(c *client) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for ; c != nil; c = c.elsewhere {
		c.forgive()
	}
}

func (c *client) forgive() {
	c.virtualTime = min(c.virtualTime, c.site.clock.systemVirtualTime)
	if c.faces == nil {
		return
	}
	for _, f := range c.faces {
		if f != nil {
			f.forgive()
		}
	}
}

// Refuses reports whether a request with these keys would be refused for debt if it arrived now. The caller
// can then refuse it before the client sends the body. Refuses charges nothing and stores nothing, and Arrive
// decides independently.
func (l *Limiter) Refuses(now time.Time, keys []Key) bool {
	at := l.since(now)
	if l.policy.Load().Mode == Observe {
		return false
	}
	for _, k := range keys[:min(len(keys), MaxKeys)] {
		owes, by := l.table.Debt(at, k)
		if by != nil && by.Concerns(owes) && !by.Shadow && owes > by.MaxHold {
			return true
		}
	}
	return false
}

// retry is the shortest useful Retry-After.
const retry = time.Second

// debt is how much a key owes when a request arrives.
type debt struct {
	bucket *bucket // nil: the key has no bucket, which means that it owes nothing
	terms  *account.Terms
	wait   time.Duration // how long until it owes nothing
}

// worst replaces d with e if e has the longer wait.
func (d *debt) worst(e debt) {
	if e.wait > d.wait {
		*d = e
	}
}

// decide returns the verdict that follows from the debts of a request's keys, and the bucket for which the
// request must wait first, if any. Classes in shadow influence neither.
func (l *Limiter) decide(p *activePolicy, t *Ticket, debts []debt) (Verdict, *bucket) {
	var over, capped, held, shadow debt
	for _, d := range debts {
		switch {
		case !d.terms.Concerns(d.wait) || p.Mode == Observe:
		case d.terms.Shadow:
			shadow.worst(d)
		case d.wait > d.terms.MaxHold:
			over.worst(d)
		case d.terms.Cap:
			capped.worst(d)
		default:
			held.worst(d)
		}
	}
	v, blocking := Verdict{}, (*bucket)(nil)
	switch {
	case over.bucket != nil:
		v = over.verdict(Refuse)
	case capped.bucket != nil:
		v, blocking = l.roomFor(p, capped, func() bool { return l.room.toShedLocked(capped.bucket) == nil }), capped.bucket
	case held.bucket != nil:
		v = l.roomFor(p, held, func() bool { return t.heldLocked(0) > 0 })
	case shadow.bucket != nil:
		v = shadow.verdict(Go)
		if v.Shadow = true; v.Wait > shadow.terms.MaxHold {
			v.Action = Refuse
		}
	}
	v.Would = shadow.would()
	return v, blocking
}

// would returns what the key's class would do if it weren't in shadow.
func (d debt) would() (w Would) {
	if d.bucket == nil {
		return w
	}
	if w.Key, w.Wait = d.bucket.Key, d.wait; w.Wait > d.terms.MaxHold {
		w.Action = Refuse
	}
	return w
}

func (d debt) verdict(a Action) Verdict {
	v := Verdict{Action: a, Wait: d.wait, Key: d.bucket.Key, Reason: Debt}
	if a == Refuse {
		v.Wait = max(v.Wait, retry)
	}
	return v
}

// roomFor is called if a request would have to wait. If the waiting room is full and own returns true, it
// refuses the request. own reports whether the request's own client or key is the reason: the request would
// join the longest queue, or its client already has responses held. Otherwise another request is refused to
// make room, or the response isn't held.
func (l *Limiter) roomFor(p *activePolicy, d debt, own func() bool) Verdict {
	l.room.mu.Lock()
	refused := l.room.held >= p.MaxHeld && own()
	l.room.mu.Unlock()
	if !refused {
		return Verdict{}
	}
	v := d.verdict(Refuse)
	v.Reason = ServerFull
	return v
}

// Action is what happens to a request.
type Action uint8

// The actions.
const (
	Go     Action = iota // forward it
	Refuse               // answer it without the backend
)

func (a Action) String() string {
	if a == Refuse {
		return "refuse"
	}
	return "go"
}

// Reason is why a request was delayed or refused.
type Reason uint8

// The reasons.
const (
	None       Reason = iota // the request was neither delayed nor refused
	Debt                     // Verdict.Key owes CPU time
	ClientFull               // the client has too many requests in progress; only callers that limit these set it
	ServerFull               // the server already holds as many requests as it may
	Busy                     // the backend had no room for the request
)

func (r Reason) String() string {
	switch r {
	case Debt:
		return "debt"
	case ClientFull:
		return "client full"
	case ServerFull:
		return "server full"
	case Busy:
		return "busy"
	case None:
	}
	return "none"
}

// Verdict is a decision and its reason. The answer to the client, the log line and the metrics follow from it.
type Verdict struct {
	// Wait is how long a request that may go has waited (or, in shadow, would have waited). If the request was
	// refused, Wait is how long the client should wait before it tries again.
	Wait time.Duration
	// Key is the key whose debt delayed the request or caused its refusal, if any.
	Key    Key
	Action Action
	Reason Reason
	// Shadow is true if the verdict is only reported: the request goes at once.
	Shadow bool
	// Would is what the class in shadow whose key owes most would have decided. Would.Key is the zero Key if
	// there is no such class.
	Would Would
	// Own is true if the request was refused as Busy because of its own client: the client's other requests
	// hold as many workers as they may, or have used more than the client's share.
	Own bool
	// Known is true if the client wasn't a stranger.
	Known bool
	// Ahead is true if the client was over its share or a stranger when the request became the head of its
	// lane.
	Ahead bool
	// SiteAhead is true if the request's site had recently used clearly more than its share of the CPUs when
	// the request started, because other sites left some unused. SiteWithin is true if the site had used less.
	SiteAhead, SiteWithin bool
	// Undelayed is true if the gate delays no request, because it is in shadow or only observes.
	Undelayed bool
	// CostMultiplier is the factor by which the gate multiplied the request's cost because of its keys' debt,
	// from 2 (no debt) to 18. It is 0 if the request didn't arrive at the gate.
	CostMultiplier float32
}

// Would is what a class in shadow would have done because of a key's debt. It assumes that the class has acted
// on no earlier request; if it had refused some of them, the debt would be smaller.
type Would struct {
	Key    Key
	Wait   time.Duration
	Action Action
}

// Refused reports whether the verdict keeps the request away from the backend.
func (v Verdict) Refused() bool { return v.Action == Refuse && !v.Shadow }
