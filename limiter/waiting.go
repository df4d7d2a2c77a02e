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
	var decided []*Ticket
	first := time.Duration(-1)
	l.room.mu.Lock()
	maxHold := l.table.policy.Load().MaxHold
	for i := 0; i < len(l.room.queues); i++ {
		q := l.room.queues[i]
		wait := time.Duration(0)
		for wait == 0 && q.head != nil {
			wait, decided = l.serveLocked(at, q, maxHold, decided)
		}
		if q.head == nil {
			i-- // it is gone, and another one has its place
			continue
		}
		if first < 0 || wait < first {
			first = wait
		}
	}
	l.room.mu.Unlock()
	for _, t := range decided {
		close(t.decided)
	}
	if first < 0 {
		return time.Time{}
	}
	return now.Add(first)
}

// serveLocked does what is due for the head of a queue and returns 0, or how
// long until something is.
func (l *Limiter) serveLocked(at time.Duration, q *queue, maxHold time.Duration, decided []*Ticket) (time.Duration, []*Ticket) {
	t := q.head
	wait := q.bucket.blocks(at)
	if left := t.arrived + maxHold - at; wait > 0 && left > 0 {
		return min(wait, left), decided
	} else if wait > 0 {
		v := debt{bucket: q.bucket, wait: wait}.verdict(Refuse)
		l.decideLocked(at, t, func() { t.refuseLocked(at, v) })
		return 0, append(decided, t)
	}
	if other := t.blockedBy(at); other != nil {
		l.room.unlinkLocked(at, t)
		l.room.linkLocked(at, t, other)
		return 0, decided
	}
	v := Verdict{Action: Go, Wait: at - t.arrived, Key: q.bucket.key, Reason: Debt}
	l.decideLocked(at, t, func() { t.startLocked(at, v) })
	return 0, append(decided, t)
}

// decideLocked takes a request out of the room and tells it what becomes of it.
func (l *Limiter) decideLocked(at time.Duration, t *Ticket, tell func()) {
	l.room.dismissLocked(at, t)
	l.queued.Add(-1)
	t.mu.Lock()
	defer t.mu.Unlock()
	tell()
}

// blockedBy returns the bucket that keeps the request waiting longest, or nil.
func (t *Ticket) blockedBy(at time.Duration) *bucket {
	var worst debt
	t.each(func(s *slot) { worst.worst(debt{bucket: s.bucket, wait: s.bucket.blocks(at)}) })
	return worst.bucket
}

// wait puts a request into the queue of the bucket that blocks it, or says what
// is full.
func (l *Limiter) wait(at time.Duration, p *policy, t *Ticket, blocking *bucket) Reason {
	l.room.mu.Lock()
	defer l.room.mu.Unlock()
	if full := l.room.admitLocked(p, t); full != None {
		return full
	}
	l.room.seq++
	t.each(func(s *slot) { s.undo(at) })
	t.decided = make(chan struct{})
	t.seq, t.arrived = l.room.seq, at
	l.room.linkLocked(at, t, blocking)
	l.queued.Add(1)
	l.wake()
	return None
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
	return l.room.admitLocked(p, t) == None
}

// wake asks for an Advance, if anything waits for one.
func (l *Limiter) wake() {
	if l.queued.Load() == 0 {
		return
	}
	select {
	case l.due <- struct{}{}:
	default:
	}
}

// Held is the number of requests and responses that are held now.
func (l *Limiter) Held() int {
	l.room.mu.Lock()
	defer l.room.mu.Unlock()
	return l.room.held
}

// Keys is the number of keys that are remembered.
func (l *Limiter) Keys() int { return l.table.len() }
