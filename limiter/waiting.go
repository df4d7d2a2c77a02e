package limiter

import (
	"slices"
	"sync"
	"time"
)

// Due returns a channel that receives a value when Advance should be called earlier than it last asked.
func (l *Limiter) Due() <-chan struct{} { return l.due }

// Advance releases the waiting requests whose time has come, and refuses those that have waited too long. It
// returns when to call it next, or the zero Time if no request waits.
func (l *Limiter) Advance(now time.Time) (next time.Time) {
	at := l.since(now)
	first := sooner(l.serveRoom(at), l.gate.expire(at))
	if first < 0 {
		return time.Time{}
	}
	return now.Add(first)
}

// sooner returns the shorter of two waits. A negative value means that there is nothing to wait for.
func sooner(a, b time.Duration) time.Duration {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

// serveRoom releases and refuses requests in the waiting room. It returns how long until it must be called
// again, or a negative time if no request waits there.
func (l *Limiter) serveRoom(at time.Duration) (first time.Duration) {
	first = -1
	l.room.mu.Lock()
	defer l.room.decided.unlock(&l.room.mu)
	p := l.policy.Load()
	for i := 0; i < len(l.room.queues); i++ {
		q := l.room.queues[i]
		wait := time.Duration(0)
		for wait == 0 && q.first != nil {
			wait = l.serveLocked(at, q, p)
		}
		if q.first == nil {
			i-- // the queue was removed, and another one moved to its place
			continue
		}
		first = sooner(first, wait)
	}
	return first
}

// serveLocked releases, moves or refuses the head of a queue if its time has come, and returns 0. Otherwise
// it returns how long until then.
func (l *Limiter) serveLocked(at time.Duration, q *queue, p *activePolicy) (wait time.Duration) {
	t := q.first
	wait = t.reservationOf(q.bucket).Blocks(at)
	if left := t.arrived + p.MaxHold - at; wait > 0 && left > 0 {
		return min(wait, left)
	} else if wait > 0 {
		l.takeOutLocked(at, t)
		t.refuse(at, debt{bucket: q.bucket, wait: wait}.verdict(Refuse))
		l.room.decided.add(t)
		return 0
	}
	if other := t.blockedBy(at); other != nil {
		l.room.unlinkLocked(at, t)
		l.room.linkLocked(at, t, other)
		return 0
	}
	l.takeOutLocked(at, t)
	t.verdict.Key, t.verdict.Reason = q.bucket.Key, Debt
	if l.admit(at, p, t) {
		l.room.decided.add(t)
	}
	return 0
}

// takeOutLocked takes a request out of the room.
func (l *Limiter) takeOutLocked(at time.Duration, t *Ticket) {
	l.room.dismissLocked(at, t)
	l.queued.Add(-1)
}

// blockedBy returns the bucket that keeps the request waiting longest, or nil if none does.
func (t *Ticket) blockedBy(at time.Duration) *bucket {
	var worst debt
	t.each(func(s *reservation) { worst.worst(debt{bucket: s.Bucket, wait: s.Blocks(at)}) })
	return worst.bucket
}

// reservationOf returns the request's reservation of the bucket.
func (t *Ticket) reservationOf(b *bucket) *reservation {
	i := 0
	for t.reservations[i].Bucket != b {
		i++
	}
	return &t.reservations[i]
}

// wait puts a request into the queue of the bucket that blocks it. If the room is full, wait first refuses a
// request from a longer queue. If there is no longer queue, it returns false.
func (l *Limiter) wait(at time.Duration, p *activePolicy, t *Ticket, blocking *bucket) (waits bool) {
	l.room.mu.Lock()
	defer l.room.decided.unlock(&l.room.mu)
	if l.room.held >= p.MaxHeld {
		o := l.room.toShedLocked(blocking)
		if o == nil {
			return false
		}
		key := o.in.bucket.Key
		l.takeOutLocked(at, o)
		o.refuse(at, Verdict{Action: Refuse, Wait: retry, Key: key, Reason: ServerFull})
		l.room.decided.add(o)
	}
	l.room.admitLocked(t)
	l.room.seq++
	t.each(func(s *reservation) { s.Undo(at) })
	t.decided, t.decidedAtOnce = make(chan struct{}), false
	t.seq, t.arrived = l.room.seq, at
	l.room.linkLocked(at, t, blocking)
	l.queued.Add(1)
	l.wake()
	return true
}

// dismiss takes a ticket out of the room, if it is there.
func (l *Limiter) dismiss(at time.Duration, t *Ticket) {
	l.room.mu.Lock()
	defer l.room.mu.Unlock()
	if t.in != nil {
		l.queued.Add(-1)
	}
	l.room.dismissLocked(at, t)
}

// holdResponse counts a response as held. It returns false if there is no room.
func (l *Limiter) holdResponse(p *activePolicy, t *Ticket) bool {
	l.room.mu.Lock()
	defer l.room.mu.Unlock()
	if l.room.held >= p.MaxHeld {
		return false
	}
	l.room.admitLocked(t)
	return true
}

// wake requests a call of Advance if a request waits in the room.
func (l *Limiter) wake() {
	if l.queued.Load() > 0 {
		l.requestAdvance()
	}
}

// requestAdvance requests a call of Advance through Due.
func (l *Limiter) requestAdvance() {
	select {
	case l.due <- struct{}{}:
	default:
	}
}

// Held returns the number of requests and responses that are now held, including requests at the gate.
func (l *Limiter) Held() int {
	l.room.mu.Lock()
	defer l.room.mu.Unlock()
	return l.room.held + int(l.gate.waiting.Load())
}

// Keys returns the number of keys that have an account.
func (l *Limiter) Keys() int { return l.table.Len() }

// waitingRoom holds the requests that wait until a key's debt is paid. It also counts everything that is held,
// including responses.
//
// A request waits in the queue of the key that blocks it longest. When that key owes nothing, the head of its
// queue starts and is charged. The next one then waits until that charge is paid, so requests start at the
// key's pace rather than all at once. If another of the request's keys is in debt by then, the request moves
// to that key's queue, where it is ordered by arrival.
type waitingRoom struct {
	mu      sync.Mutex         // guards the fields below, and each waitEntry; taken before the gate's lock
	queues  []*queue           // the queues that aren't empty
	of      map[*bucket]*queue // the same queues, by bucket
	held    int
	seq     uint64
	decided decisions
}

// queue holds the tickets that wait until a key's debt is paid, in order of arrival.
type queue struct {
	bucket *bucket
	list
}

// waitEntry is a ticket's place in the room.
type waitEntry struct {
	in      *queue // nil: it is in no queue
	counted bool   // it counts as held
	seq     uint64
	arrived time.Duration
	since   time.Duration // when it joined this queue
}

// admitLocked counts a request or response as held.
func (r *waitingRoom) admitLocked(t *Ticket) {
	t.waitEntry = &waitEntry{counted: true}
	r.held++
	t.heldLocked(1)
}

// heldLocked adds n to the client's number of held requests, and returns the sum. The client is the first key;
// it has no bucket if its class has just been removed.
func (t *Ticket) heldLocked(n int32) int {
	c := t.own().Bucket
	if c == nil {
		return 0
	}
	return c.Hold(n)
}

// toShedLocked returns the request to refuse if the room is full and a request for forKey must wait: the
// newest of the longest queue. It returns nil if forKey's own queue would then be as long.
func (r *waitingRoom) toShedLocked(forKey *bucket) (t *Ticket) {
	most := 1
	if own := r.of[forKey]; own != nil {
		most += own.n
	}
	for _, q := range r.queues {
		if q.n > most {
			most, t = q.n, q.last
		}
	}
	return t
}

// dismissLocked takes a ticket out of its queue, and stops counting it as held.
func (r *waitingRoom) dismissLocked(at time.Duration, t *Ticket) {
	r.unlinkLocked(at, t)
	if t.counted {
		t.counted = false
		r.held--
		t.heldLocked(-1)
	}
}

// linkLocked puts a ticket into a bucket's queue, in order of arrival.
func (r *waitingRoom) linkLocked(at time.Duration, t *Ticket, b *bucket) {
	q := r.of[b]
	if q == nil {
		q = &queue{bucket: b, list: list{kind: inRoom}}
		r.of[b] = q
		r.queues = append(r.queues, q)
	}
	after := q.last
	for after != nil && after.seq > t.seq {
		after = after.links[inRoom].before
	}
	q.insert(t, after)
	t.in, t.since = q, at
	b.WaitForDebt(1, t.guess)
}

// unlinkLocked takes a ticket out of its queue, if it is in one, and records how long it waited for that key.
func (r *waitingRoom) unlinkLocked(at time.Duration, t *Ticket) {
	q := t.in
	if q == nil {
		return
	}
	q.remove(t)
	t.in = nil
	q.bucket.WaitForDebt(-1, -t.guess)
	t.reservationOf(q.bucket).Waited += float32((at - t.since).Seconds())
	if q.first == nil {
		delete(r.of, q.bucket)
		last := len(r.queues) - 1
		r.queues[slices.Index(r.queues, q)], r.queues[last] = r.queues[last], nil
		r.queues = r.queues[:last]
	}
}
