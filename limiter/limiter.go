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

	policyMu sync.Mutex // guards the following, and who replaces the policy; taken before all others
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
	t := a.ticket(at, p) // nobody else knows it yet: no lock
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

// admit lets a request on whose caps are clear: to the gate, if there is one; else it tells that
// the request goes.
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
		l.requestAdvance() // somebody begins to wait, and may wait too long
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
		return 0 // the work is done: to throw it away would help nobody
	}
	return hold
}

// Leave ends a request: it is answered, or its client has gone. One that was
// never settled counts as one that never ran: all that it was charged is given back.
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
	even := func(x *client) { x.virtualTime = min(x.virtualTime, x.site.clock.systemVirtualTime) }
	even(c)
	if c.faces == nil {
		return
	}
	for _, f := range c.faces {
		if f != nil {
			even(f)
		}
	}
}

// Refuses tells whether a request with these keys would be refused for debt if
// it arrived now. Nobody has to send its body for that. It charges nothing and
// remembers nothing: Arrive decides anew.
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
