package limiter

import (
	"sync/atomic"
	"time"
)

// Arrival is what the limiter needs to know of a request.
type Arrival struct {
	Keys  []Key         // at most MaxKeys, the client's own first; not kept
	Guess time.Duration // what it will likely cost
}

// Limiter keeps the accounts of all keys and decides when a request may go. It
// is a state machine that is told the time: it starts no goroutine, reads no
// clock and never sleeps. All methods may be called concurrently; the instants
// that they are told may be out of order by as much as goroutines are.
type Limiter struct {
	epoch   time.Time
	table   *table
	room    room
	queued  atomic.Int32  // requests in the room's queues
	decided chan struct{} // closed: what every ticket has that never waited
	due     chan struct{}
	sharer  Sharer
}

// New makes a limiter that remembers about size keys. Without a Sharer it works
// alone.
func New(now time.Time, p Policy, size int, s Sharer) *Limiter {
	l := &Limiter{
		epoch:   now,
		table:   newTable(size),
		decided: make(chan struct{}),
		due:     make(chan struct{}, 1),
		sharer:  s,
	}
	close(l.decided)
	l.table.policy.Store(compile(p))
	return l
}

// Arrive takes in a request and decides at once, if it can, or later, by
// Advance. It never blocks. Whatever comes of the request, Leave must be called.
func (l *Limiter) Arrive(now time.Time, a Arrival) *Ticket {
	at, p := l.since(now), l.table.policy.Load()
	t := &Ticket{decided: l.decided, guess: a.Guess.Seconds()}
	t.pin(l.table, p, a.Keys)
	v, blocking := l.judge(at, p, t)
	if v.Acts() {
		l.refuse(at, t, v)
		return t
	}
	t.make(at, l.table, p, a.Keys)
	if blocking == nil {
		l.start(at, t, v)
	} else if full := l.wait(at, p, t, blocking); full != None {
		l.refuse(at, t, Verdict{Action: Refuse, Wait: retry, Key: blocking.key, Reason: full})
	}
	return t
}

// Progress charges a running request on, if it has cost more so far than it was
// charged with. The sooner a misjudged request is charged, the fewer of its
// kind are let in behind it.
func (l *Limiter) Progress(now time.Time, t *Ticket, soFar time.Duration) {
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
	t.adjustLocked(at, x)
	p := l.table.policy.Load()
	t.each(func(s *slot) {
		h := min(s.hold(at), p.MaxHold)
		s.note(at, x, h)
		hold = max(hold, h)
	})
	t.mu.Unlock()
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
	if t.entered {
		l.dismiss(at, t)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state == over {
		return
	}
	if t.state == running {
		t.adjustLocked(at, 0)
	}
	t.state = over
	t.unpin()
	l.wake()
}

// start lets a request go and charges its guess. The charge counts from now, so
// that what the keys earn while it runs pays for it.
func (l *Limiter) start(at time.Duration, t *Ticket, v Verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state, t.verdict, t.charged = running, v, t.guess
	t.each(func(s *slot) { s.reserve(at, t.guess) })
}

func (l *Limiter) refuse(at time.Duration, t *Ticket, v Verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state, t.verdict = over, v
	t.each(func(s *slot) {
		if s.bucket.key == v.Key {
			s.bucket.refused(at, v.Wait)
		}
	})
	t.unpin()
}

// since turns an instant into the limiter's own.
func (l *Limiter) since(now time.Time) time.Duration { return now.Sub(l.epoch) }
