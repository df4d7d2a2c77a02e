package limiter

import "time"

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
// something is; negative: nobody waits there.
func (l *Limiter) serveRoom(at time.Duration) (first time.Duration) {
	first = -1
	l.room.mu.Lock()
	defer l.room.decided.unlock(&l.room.mu)
	p := l.policy.Load()
	for i := 0; i < len(l.room.queues); i++ {
		q := l.room.queues[i]
		wait := time.Duration(0)
		for wait == 0 && q.head != nil {
			wait = l.serveLocked(at, q, p)
		}
		if q.head == nil {
			i-- // it is gone, and another one has its place
			continue
		}
		first = sooner(first, wait)
	}
	return first
}

// serveLocked does what is due for the head of a queue and returns 0, or how
// long until something is.
func (l *Limiter) serveLocked(at time.Duration, q *queue, p *policy) (wait time.Duration) {
	t := q.head
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
func (l *Limiter) wait(at time.Duration, p *policy, t *Ticket, blocking *bucket) (waits bool) {
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
func (l *Limiter) holdResponse(p *policy, t *Ticket) bool {
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

// Crowded tells whether requests wait at the gate. It takes no lock.
func (l *Limiter) Crowded() bool { return l.gate.waiting.Load() > 0 }

// Keys is the number of keys that are remembered.
func (l *Limiter) Keys() int { return l.table.Len() }
