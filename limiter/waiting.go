package limiter

import (
	"slices"
	"sync"
	"time"
)

// Due receives when Advance should be called before the time that it last
// returned.
func (l *Limiter) Due() <-chan struct{} { return l.due }

// Advance releases the waiting requests that are due, and refuses those that
// have waited too long. It returns when it wants to be called next; the zero
// Time if nothing waits.
func (l *Limiter) Advance(now time.Time) (next time.Time) {
	at := l.since(now)
	first := sooner(l.serveRoom(at), l.gate.expire(at))
	if first < 0 {
		return time.Time{}
	}
	return now.Add(first)
}

// sooner is the less of two times until something; negative: there is nothing.
func sooner(a, b time.Duration) time.Duration {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

// serveRoom does what is due in the waiting room, and returns how long until
// something is; negative: no request waits there.
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
			i-- // it is gone, and another one has its place
			continue
		}
		first = sooner(first, wait)
	}
	return first
}

// serveLocked does what is due for the head of a queue and returns 0, or how
// long until something is.
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

// blockedBy returns the bucket that keeps the request waiting longest, or nil.
func (t *Ticket) blockedBy(at time.Duration) *bucket {
	var worst debt
	t.each(func(s *reservation) { worst.worst(debt{bucket: s.Bucket, wait: s.Blocks(at)}) })
	return worst.bucket
}

// reservationOf is the one of the bucket, which is one of the request's.
func (t *Ticket) reservationOf(b *bucket) *reservation {
	i := 0
	for t.reservations[i].Bucket != b {
		i++
	}
	return &t.reservations[i]
}

// wait puts a request into the queue of the bucket that blocks it. If the room is full, and others wait in
// a longer queue, one of those is refused for it; else it is to be refused itself.
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

// dismiss takes a ticket out of the room, if it is in it.
func (l *Limiter) dismiss(at time.Duration, t *Ticket) {
	l.room.mu.Lock()
	defer l.room.mu.Unlock()
	if t.in != nil {
		l.queued.Add(-1)
	}
	l.room.dismissLocked(at, t)
}

// holdResponse counts a response as held, if there is room.
func (l *Limiter) holdResponse(p *activePolicy, t *Ticket) bool {
	l.room.mu.Lock()
	defer l.room.mu.Unlock()
	if l.room.held >= p.MaxHeld {
		return false
	}
	l.room.admitLocked(t)
	return true
}

// wake asks for an Advance, if anything in the room waits for one.
func (l *Limiter) wake() {
	if l.queued.Load() > 0 {
		l.requestAdvance()
	}
}

// requestAdvance asks for an Advance.
func (l *Limiter) requestAdvance() {
	select {
	case l.due <- struct{}{}:
	default:
	}
}

// Held is the number of requests and responses that are held now, those at the
// gate included.
func (l *Limiter) Held() int {
	l.room.mu.Lock()
	defer l.room.mu.Unlock()
	return l.room.held + int(l.gate.waiting.Load())
}

// Crowded reports whether requests wait at the gate. It takes no lock.
func (l *Limiter) Crowded() bool { return l.gate.waiting.Load() > 0 }

// Keys is the number of keys that are remembered.
func (l *Limiter) Keys() int { return l.table.Len() }

// waitingRoom is the waiting room: requests that wait for a key's debt to be paid,
// and the count of all that is held, responses included.
//
// A request waits in the queue of the key that blocks it longest. The head of
// a queue leaves when that key owes nothing, and is charged as it leaves, so
// that the next one waits until that is paid: the key's pace, never a herd.
// If then another of its keys is in debt, it goes to that one's queue, to the
// place that its arrival gives it.
type waitingRoom struct {
	mu      sync.Mutex         // guards the following, and each waitEntry; taken before the gate's
	queues  []*queue           // those that are not empty
	of      map[*bucket]*queue // the same by their buckets
	held    int
	seq     uint64
	decided decisions
}

// queue is of the tickets that wait for a key's debt, in the order of their arrival.
type queue struct {
	bucket *bucket
	list
}

// waitEntry is where a ticket is in the room.
type waitEntry struct {
	in      *queue // nil: in no queue
	counted bool   // among the held
	seq     uint64
	arrived time.Duration
	since   time.Duration // in this queue
}

// admitLocked counts a request or response as held.
func (r *waitingRoom) admitLocked(t *Ticket) {
	t.waitEntry = &waitEntry{counted: true}
	r.held++
	t.heldLocked(1)
}

// heldLocked counts n more of the client's requests as held, and returns how
// many are. The client is the first key; its class may just have been removed.
func (t *Ticket) heldLocked(n int32) int {
	c := t.own().Bucket
	if c == nil {
		return 0
	}
	return c.Hold(n)
}

// toShedLocked is the request to refuse in a full room, for one that would wait for that key: the newest
// of the longest queue; nil: the key's own would be as long.
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

// dismissLocked takes a ticket out of all of the room.
func (r *waitingRoom) dismissLocked(at time.Duration, t *Ticket) {
	r.unlinkLocked(at, t)
	if t.counted {
		t.counted = false
		r.held--
		t.heldLocked(-1)
	}
}

// linkLocked puts a ticket into a bucket's queue, by arrival.
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

// unlinkLocked takes a ticket out of its queue, if it is in one, and notes how
// long it waited for that key.
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
