package limiter

import (
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"tempomat/limiter/account"
	"tempomat/limiter/known"
)

// Limiter keeps the accounts of all keys and decides when a request may go. It
// is a state machine that is told the time: it starts no goroutine, reads no
// clock and never sleeps. All methods may be called concurrently; the instants
// that they are told may be out of order by as much as goroutines are.
type Limiter struct {
	epoch   time.Time
	table   *table
	policy  atomic.Pointer[activePolicy]
	room    waitingRoom
	gate    *gate
	queued  atomic.Int32  // requests in the room's queues
	decided chan struct{} // closed: what every ticket has that never waited
	due     chan struct{}
	sharer  Sharer

	policyMu sync.Mutex // guards the following fields and the replacement of the policy; taken before all others
	sidecars int
}

// New makes a limiter that remembers about size keys. Without a Sharer it works
// alone.
func New(now time.Time, p Policy, size int, s Sharer) *Limiter {
	l := &Limiter{
		epoch:   now,
		room:    waitingRoom{of: make(map[*bucket]*queue)},
		table:   account.New[keyAtGate](size),
		decided: make(chan struct{}),
		due:     make(chan struct{}, 1),
		sharer:  s,

		sidecars: 1,
	}
	close(l.decided)
	var secret [16]byte
	_, _ = rand.Read(secret[:]) // never fails
	l.gate = newGate(known.New(now, secret))
	l.SetPolicy(now, p)
	return l
}

// Known remembers who is no stranger.
type Known = known.Clients

// Known is the memory of clients that are no strangers, to be kept over a
// restart.
func (l *Limiter) Known() *Known { return l.gate.known }

// Arrive takes in a request and decides at once, if it can, or later, by
// Advance. It never blocks. Whatever comes of the request, Leave must be called.
func (l *Limiter) Arrive(now time.Time, a Arrival) *Ticket {
	at, p := l.since(now), l.policy.Load()
	t := a.ticket(at, p) // not shared yet: no lock
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

// admit lets a request on whose caps are clear: to the gate, if there is one; otherwise it
// reports that the request goes.
func (l *Limiter) admit(at time.Duration, p *activePolicy, t *Ticket) (goes bool) {
	client := t.own().Bucket
	if !p.gated || client == nil {
		if client != nil {
			client.SetStanding(at, 1)
		}
		t.start(at)
		return true
	}
	standing := t.standing
	if p.Without&ruleStanding != 0 {
		standing = 1
	}
	share := client.SetStanding(at, standing) / p.Gate.CPUs
	if of := t.whole(); of != nil {
		of.Bucket.SetStanding(at, t.clientsBehind)
	}
	l.gate.arrive(at, t, share)
	if l.gate.waiting.Load() == 1 {
		l.requestAdvance() // a request begins to wait, and may wait too long
	}
	return false
}

// Progress charges a running request on, if it has cost more so far than it was
// charged with. The sooner a misjudged request is charged, the fewer of its
// kind are let in behind it. Whether it computes, or holds a worker without that,
// decides which of them it takes room from.
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

// Settle replaces what a request that ran was charged with what it cost, into
// debt if need be, and says how long to hold its response (in cooperative mode;
// 0 otherwise). Only the first call counts.
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
		return 0 // the work is done: throwing it away would help no one
	}
	return hold
}

// Leave ends a request: it was answered, or its client disconnected. A request that was never
// settled counts as one that never ran: its whole charge is returned.
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
			wait = t.atGate(at) // in vain: its client gave up
		}
		t.each(func(s *reservation) { s.Leave(at, wait) })
		l.wake()
	}
	t.state = over
}

// since turns an instant into the limiter's own.
func (l *Limiter) since(now time.Time) time.Duration { return now.Sub(l.epoch) }

// Forgive sets a key's debt to none, and how far its client is ahead of its share at the
// gate. It returns the debt, in CPU-seconds, and whether the key is known. Running requests
// are still charged with what they cost. Requests that wait at the gate keep their rank;
// those that wait for the debt go. Other sidecars are not told: no Sharer can take back
// what was charged.
func (l *Limiter) Forgive(now time.Time, k Key) (forgiven float64, known bool) {
	at := l.since(now)
	forgiven, b := l.table.Forgive(at, k)
	if b != nil {
		l.gate.forgive(b.Value.client.Load())
	}
	l.requestAdvance()
	return forgiven, b != nil
}

// forgive has a client, and all that are behind its address without a session, be as
// far as the clock is, at each site.
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

// Refuses reports whether a request with these keys would be refused for debt if it arrived
// now, so its client need not send the body first. It charges nothing and remembers nothing:
// Arrive decides again.
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

// Balance is how an account stands, in CPU-seconds, the client's standing included.
type Balance struct {
	Level float64 // credit above zero, debt below
	Rate  float64 // earned per second
	Burst float64 // the most credit
}

// Balance tells how a key's account stands; false if those of its class have none.
func (l *Limiter) Balance(now time.Time, k Key) (x Balance, ok bool) {
	terms := l.table.Terms(k.Class)
	if terms == nil || terms.External {
		return x, false
	}
	s, _ := l.table.Find(l.since(now), k)
	return Balance{Level: s.Level, Rate: s.Rate, Burst: s.Burst}, true
}

// retry is the shortest useful Retry-After.
const retry = time.Second

// debt is how a key stands as a request arrives.
type debt struct {
	bucket *bucket // nil: not known, which is as good as owing nothing
	terms  *account.Terms
	wait   time.Duration // until it owes nothing
}

// worst keeps the longest wait.
func (d *debt) worst(e debt) {
	if e.wait > d.wait {
		*d = e
	}
}

// decide says what the debts of a request's keys mean for it, and which bucket
// it has to wait for first, if any. Classes in shadow have no part in either.
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

// would is what the key's class would do if it were not in shadow.
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

// roomFor refuses a request that would have to be held if the room is full by its own doing: it would wait in
// the longest queue, or its client has responses held already. Otherwise another one makes room for it, or its
// response is not held.
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

// Action is what becomes of a request.
type Action uint8

// The actions.
const (
	Go     Action = iota // forward it
	Refuse               // answer it without asking the backend
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
	None       Reason = iota // it was not
	Debt                     // Verdict.Key owes CPU time
	ClientFull               // its client has as much under way as one may; never said here, but by those who bound that
	ServerFull               // as many requests are held as the server may hold
	Busy                     // the backend had no room for it
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

// Verdict is a decision that explains itself. The same value makes the answer
// to the client, the log line and the count.
type Verdict struct {
	// Wait is, of a request that may go, how long it waited for that (or, in
	// shadow, would have); of a refused one, how long until asking again is worth it.
	Wait time.Duration
	// Key is the one to blame, if any.
	Key    Key
	Action Action
	Reason Reason
	// Shadow is true if the verdict is only reported: the request goes at once.
	Shadow bool
	// Would is what the class in shadow would have done whose key owes most, in addition to what
	// became of the request; Would.Key is the zero Key if there is none.
	Would Would
	// Own says that it was refused as Busy by its client's own doing: other requests of it
	// hold what it may hold, or have had more than its share.
	Own bool
	// Known is true if its client wasn't a stranger to the gate.
	Known bool
	// Ahead is true if its client had more than its share, or is a stranger, when the request
	// came to the head of its lane.
	Ahead bool
	// SiteAhead is true if the other sites leave its site clearly more than its share of the
	// CPUs when the request begins; SiteWithin if it has less than its share.
	SiteAhead, SiteWithin bool
	// Undelayed is true if the gate delays no request: it is in shadow, or only observes.
	Undelayed bool
	// CostMultiplier is the factor by which the gate overrated the request's cost because of its
	// keys' debt: 2 (no debt) to 18; 0 if it did not come to the gate.
	CostMultiplier float32
}

// Would is what a class in shadow would have done for the debt of a key, had the request
// been the first that it acted on: it does not know of those that it would have refused.
type Would struct {
	Key    Key
	Wait   time.Duration
	Action Action
}

// Refused reports whether the verdict keeps the request from the backend.
func (v Verdict) Refused() bool { return v.Action == Refuse && !v.Shadow }
