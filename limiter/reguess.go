package limiter

import "time"

// Reguess tells what a waiting request will surely cost, and how long it will
// hold a worker without computing, now that answers to its kind have come. If it
// turns out to be light, or to wait most of the time, it changes lanes: it came
// when nobody knew that, and must not wait among the heavy ones because of it.
// One that turns out heavy is no probe any more. All others stay as they are.
func (l *Limiter) Reguess(now time.Time, t *Ticket, guess, idle time.Duration) {
	if t.client == nil {
		return
	}
	release(l.gate.reguess(l.since(now), t, guess.Seconds(), idle.Seconds()))
}

func (g *gate) reguess(at time.Duration, t *Ticket, guess, idle float64) (decided *Ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.stage != queued || t.light || t.waits {
		return nil
	}
	light, waits := g.laneOf(true, guess, idle)
	if !light && !waits {
		g.believe(t)
		return nil
	}
	lane := t.lane()
	lane.remove(t)
	if t.heap != nil {
		t.heap.remove(t)
		t.flow.tag -= t.applied
		t.each(func(s *slot) { s.undo(at) })
		t.applied, t.bound = 0, t.rank
		if lane.first != nil {
			g.head(at, lane.first)
		}
	}
	t.guess, t.likelyIdle, t.sure = guess, idle, true
	t.light, t.waits = light, waits
	if t.lane().append(t) {
		g.head(at, t)
	}
	return g.pump(at)
}

// believe takes a request that was unknown for heavy, as it was ranked.
func (g *gate) believe(t *Ticket) {
	if t.sure {
		return
	}
	t.sure = true
	if t.heap == &g.unknown {
		t.heap.remove(t)
		g.heavy.push(t)
	}
}
