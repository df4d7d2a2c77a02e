package limiter

import "time"

// Reguess tells what a waiting request will likely cost, and how long it will
// hold a worker without computing. If it belongs on another rung by that, shorter or
// longer, it goes there: it came when nobody knew that. What changed with time alone,
// Advance sees.
func (l *Limiter) Reguess(now time.Time, t *Ticket, e Estimate) {
	if t.client == nil {
		return
	}
	l.gate.reguess(l.since(now), t, e)
}

// Estimate is what a request will likely take of the backend. Its fields are
// those of Arrival.
type Estimate struct {
	Guess, Idle, Running time.Duration
	Sure                 bool
}

func (g *gate) reguess(at time.Duration, t *Ticket, e Estimate) {
	g.mu.Lock()
	defer g.unlock()
	if t.phase != queued || g.without(ruleReguesses) {
		return
	}
	idle, guess, sure := t.likelyIdle, t.guess, t.sure
	t.likelyIdle, t.running, t.sure, t.guess = e.Idle.Seconds(), e.Running.Seconds(), e.Sure, e.Guess.Seconds()
	to := g.levelOf(t)
	estimate := t.guess
	t.guess = guess // with which its keys were charged
	switch {
	case to != t.level:
		g.relocate(at, t, to, estimate)
	case t.heap == &t.site.parked && (idle != t.likelyIdle || sure != t.sure):
		g.unpark() // it may hold more workers now
	default:
		if t.heap == nil {
			t.guess = estimate
		}
		return // and so nobody else may go
	}
	g.dispatch(at)
}

// relocate puts a waiting request at the end of its client's lane of another level.
func (g *gate) relocate(at time.Duration, t *Ticket, to level, guess float64) {
	if t.heap != nil {
		t.flow.virtualTime -= t.applied
		t.applied, t.paid = 0, 0
		t.each(func(s *reservation) { s.Undo(at) })
	}
	g.leaveLane(at, t)
	t.level, t.guess = to, guess
	if g.join(t) {
		g.enqueueHead(at, t)
	}
}
