package limiter

import (
	"cmp"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"tempomat/limiter/account"
)

// Arrival is what the limiter needs to know of a request.
type Arrival struct {
	Keys  []Key         // at most MaxKeys, the client's own first; not kept
	Guess time.Duration // what it will likely cost
	// Idle is how long it will likely hold a worker of the backend without
	// computing.
	Idle time.Duration
	// Sure says that the guess rests on answers to requests of its kind. Only
	// then can it be light.
	Sure bool
	// Running is what others of its kind, that run or ran lately, have cost or held a
	// worker for at least, where the guess is not sure; zero: nothing is known.
	Running time.Duration
	// Standing multiplies the share of the client, by the evidence that it is a
	// person's browser: 1/2 to 8, and 0 is 1.
	Standing float64
	// Company multiplies the share of the second key where the first one is a
	// session: of how many clients its address is. Up to 8, and 0 is 1.
	Company float64
	// Proven says that there is evidence for it at all: the client came back as no
	// stranger of a single request could, or is a robot with an account of its own.
	Proven bool
	// Passed says that the client, a stranger, kept a cookie that it was given as it
	// waited: it goes before strangers who did not.
	Passed bool
	// Session says that the first key is a session of the address that the second
	// key is.
	Session bool
	// Pooled says that the client is one of many that anybody can make up, as the name of a
	// robot. All of these together, who are the second key, are served as one client of its
	// share, each of them in turn, and as many of their requests wait as of one.
	Pooled bool
	// Share multiplies the budget of the first key, in every mode, if that has one of its
	// own; 0: it has that of its class.
	Share float64
	// Site is the name of the policy's site that the request is for; empty, or none of the
	// policy's: it is one of the others.
	Site string
	// Face tells apart whom the first key is, if that is no session, by what they say
	// they are: below 8.
	Face uint8
	// Follows says that the request is for a part of a page that its client was just
	// served. A stranger's that is likely short goes before others' pages.
	Follows bool
	// Prefetch says that nobody looks at the answer yet. A stranger's goes last.
	Prefetch bool
	// Interest is who asks for the like of it. It orders strangers.
	Interest Interest
	// Memory is that of a ticket that nobody uses any more, by its Emptied; nil: none is there.
	Memory *Ticket
}

// Interest is who asks for something.
type Interest uint8

// The interests.
const (
	ReadByPeople Interest = iota // or by nobody knows whom
	ReadBySome
	ReadByFew
	ReadByRobots
)

// Limiter keeps the accounts of all keys and decides when a request may go. It
// is a state machine that is told the time: it starts no goroutine, reads no
// clock and never sleeps. All methods may be called concurrently; the instants
// that they are told may be out of order by as much as goroutines are.
type Limiter struct {
	epoch   time.Time
	table   *table
	policy  atomic.Pointer[policy]
	room    waitingRoom
	gate    *gate
	queued  atomic.Int32  // requests in the room's queues
	decided chan struct{} // closed: what every ticket has that never waited
	due     chan struct{}
	sharer  Sharer

	policyMu sync.Mutex // guards the following, and who replaces the policy; taken first of all locks
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
	l.gate = newGate(newKnown(now, secret))
	l.SetPolicy(now, p)
	return l
}

// ticket is that of the request, empty but for what it says of itself.
func (a *Arrival) ticket() *Ticket {
	t := a.Memory
	if t == nil {
		t = new(Ticket)
	}
	t.guess, t.sure, t.interest = a.Guess.Seconds(), a.Sure, min(a.Interest, ReadByRobots)
	t.proven, t.passed, t.session, t.face = a.Proven, a.Passed, a.Session, a.Face%faces
	t.siteName = a.Site
	t.follows, t.prefetch, t.pooled, t.share = a.Follows, a.Prefetch, a.Pooled, cmp.Or(a.Share, 1)
	return t
}

// Arrive takes in a request and decides at once, if it can, or later, by
// Advance. It never blocks. Whatever comes of the request, Leave must be called.
func (l *Limiter) Arrive(now time.Time, a Arrival) *Ticket {
	at, p := l.since(now), l.policy.Load()
	t := a.ticket() // nobody else knows it yet: no lock
	t.decided, t.decidedAtOnce, t.came = l.decided, true, at
	var debts [MaxKeys]debt
	t.lookup(at, l.table, a.Keys, !p.gated || l.gate.waiting.Load() == 0, &debts)
	t.lenient = p.lenience(a.Site)
	v, blocking := l.decide(p, t, debts[:t.n])
	if t.verdict = v; v.Acts() {
		t.refuseLocked(at, v)
		l.announce(now, t, Rejected)
		return t
	}
	t.enter(at, l.table, a.Keys)
	t.standing, t.company = p.standing(a.Standing), p.standing(a.Company)
	t.likelyIdle, t.running = a.Idle.Seconds(), a.Running.Seconds()
	if blocking == nil {
		release(l.admit(at, p, t))
	} else if full := l.wait(at, p, t, blocking); full != None {
		t.refuseLocked(at, Verdict{Action: Refuse, Wait: retry, Key: blocking.Key, Reason: full})
		l.announce(now, t, Rejected)
		return t
	}
	l.announce(now, t, Accepted)
	return t
}

// admit lets a request on whose caps are clear: to the gate, if there is one.
// What it returns, the caller passes to release once it holds no lock.
func (l *Limiter) admit(at time.Duration, p *policy, t *Ticket) (decided *Ticket) {
	client := t.reservations[0].Bucket
	if !p.gated || client == nil {
		if client != nil && t.share != 1 {
			client.SetFactor(at, 1, t.share)
		}
		t.start(at)
		return t.chain(nil)
	}
	share := client.SetFactor(at, t.standing, t.share) / p.Gate.CPUs
	if address := t.reservations[1].Bucket; address != nil && t.company > 1 {
		address.SetFactor(at, t.company, 1)
	}
	decided = l.gate.arrive(at, t, share)
	if l.gate.waiting.Load() == 1 {
		l.requestAdvance() // somebody begins to wait, and may wait too long
	}
	return decided
}

// Progress charges a running request on, if it has cost more so far than it was
// charged with. The sooner a misjudged request is charged, the fewer of its
// kind are let in behind it. Whether it computes, or holds a worker without that,
// decides which of them it takes room from.
func (l *Limiter) Progress(now time.Time, t *Ticket, soFar time.Duration, computes bool) {
	if t.client != nil {
		release(l.gate.progress(l.since(now), t, soFar.Seconds(), computes))
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
	if t.lenient != strict {
		most = 0
	}
	t.each(func(s *reservation) { hold = max(hold, s.Settle(at, c, x, most)) })
	t.mu.Unlock()
	if t.client != nil {
		release(l.gate.finish(at, t, x))
	}
	l.offer(now, t, cost)
	l.wake()
	if hold > 0 && !l.holdResponse(p, t) {
		return 0 // the work is done: to throw it away would help nobody
	}
	return hold
}

// Leave ends a request: it is answered, or its client has gone. One that was
// never settled never ran, and all that it was charged is given back.
func (l *Limiter) Leave(now time.Time, t *Ticket) {
	at := l.since(now)
	if t.waitEntry != nil {
		l.dismiss(at, t)
	}
	if t.client != nil {
		release(l.gate.abandon(at, t))
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
