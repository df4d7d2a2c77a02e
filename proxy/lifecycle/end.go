package lifecycle

import "time"

// Orphan records that the client has disconnected while the backend works on the request. Until the backend has
// finished, the request keeps its place, and its meter continues to run. Otherwise a client that disconnects
// early could make the backend compute any number of pages at a time. Orphan returns true on the first call,
// unless the backend has finished.
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

// Left returns the time when the client disconnected while the backend worked, or the zero time if it didn't.
func (l *Life) Left() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left
}

// IsOrphan reports whether the client disconnected while the backend worked.
func (l *Life) IsOrphan() bool { return l.orphan.Load() }

// Settle replaces the guess with the cost, because the backend has finished (done), or the proxy has stopped
// waiting for it. If the client disconnected or didn't send all of its body (broken), the backend may continue
// for an unknown time, so the request pays at least the guess. Only the first call has an effect and returns
// true.
func (l *Life) Settle(now time.Time, done, broken bool) bool {
	l.mu.Lock()
	first := !l.over
	l.over = true
	l.mu.Unlock()
	if !first {
		return false
	}
	var idle time.Duration
	if l.Cost, idle = l.span.End(now, done); l.ticket == nil {
		return true
	}
	if done {
		l.gate.Guess.Learn(now, l.kind, l.Cost, idle)
	} else if l.IsOrphan() || broken {
		l.Cost = max(l.Cost, l.Guess)
	}
	l.HoldFor = l.gate.Limiter.Settle(now, l.ticket, l.Cost)
	return true
}

// Linger keeps a request's place although the proxy has stopped waiting for the backend, because the proxy
// can't see when the backend stops working on the request. The meter stops. The request pays its cost so far,
// but at least the guess, because its worker may not have begun yet. Linger returns false if the request is
// already settled or has no place. Expire frees the place.
func (l *Life) Linger(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || l.ticket == nil {
		return false
	}
	cost, _ := l.span.End(now, false)
	l.Cost = max(cost, l.Guess)
	return true
}

// Expire settles a request that lingers, and removes it from the limiter.
func (l *Life) Expire(now time.Time) {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.gate.Limiter.Settle(now, l.ticket, l.Cost)
	l.Leave(now)
}

// Leave removes a request from the limiter, because its client has the answer or has disconnected. If the
// request wasn't settled, its keys get back the whole charge. After Leave, no method may be called.
func (l *Life) Leave(now time.Time) {
	if l.ticket != nil {
		l.gate.Limiter.Leave(now, l.ticket)
	}
}
