package lifecycle

import "time"

// Orphan notes that the client disconnected while the backend works on the request.
// The request keeps its place and its meter runs on until the backend has finished,
// or who disconnects early could have any number of pages computed at a time. It
// returns true if that is news, and the backend has not finished.
func (l *Life) Orphan(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || !l.left.IsZero() {
		return false
	}
	l.left = now
	l.orphan.Store(true)
	if l.ticket != nil {
		l.gate.Limiter.Orphan(now, l.ticket)
	}
	return true
}

// Left is when the client left while the backend worked; zero: it did not.
func (l *Life) Left() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left
}

// IsOrphan reports whether the client left while the backend worked.
func (l *Life) IsOrphan() bool { return l.orphan.Load() }

// Settle replaces the guess by the cost, because the backend has finished (done) or is given
// up. If it was given up because its client disconnected or stopped sending its body (broken),
// it isn't known how long the backend works on: the request pays no less than was guessed. Only
// the first call counts, and it alone returns true.
func (l *Life) Settle(now time.Time, done, broken bool) bool {
	l.mu.Lock()
	first := !l.over
	l.over = true
	l.mu.Unlock()
	if !first {
		return false
	}
	if done {
		l.span.Served(now)
	}
	l.Cost = l.span.End(now)
	if l.ticket == nil {
		return true
	}
	if done {
		l.gate.Guess.Learn(now, l.Kind(), l.Cost, l.span.Idle())
	} else if l.IsOrphan() || broken {
		l.Cost = max(l.Cost, l.Guess)
	}
	l.HoldFor = l.gate.Limiter.Settle(now, l.ticket, l.Cost)
	return true
}

// Linger keeps a request's place although the backend was given up, because its end can't be
// seen. Its meter stops: it pays for the known cost, and no less than was guessed, because a
// worker may not have begun yet. Linger returns false if the request is settled already, or has
// no place. Expire ends it.
func (l *Life) Linger(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || l.ticket == nil {
		return false
	}
	l.Cost = max(l.span.End(now), l.Guess)
	return true
}

// Expire ends a request that lingers: it is settled, and has left.
func (l *Life) Expire(now time.Time) {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.gate.Limiter.Settle(now, l.ticket, l.Cost)
	l.Leave(now)
}

// Leave removes a request from the limiter's books: its client has its answer, or disconnected.
// If it was not settled, its whole charge is returned. No method is called after it.
func (l *Life) Leave(now time.Time) {
	if l.ticket != nil {
		l.gate.Limiter.Leave(now, l.ticket)
	}
}
