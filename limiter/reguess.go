package limiter

import "time"

// Reguess tells what a waiting request will likely cost, and how long it will
// hold a worker without computing. If that is sure, as answers to its kind have
// come, and it turns out to be light, or to wait most of the time, it changes lanes: it came
// when nobody knew that, and must not wait among the heavy ones because of it.
// One that turns out heavy is no probe any more, and one whose like was found to
// be dear is no more tried as if it might be light. All others stay as they are.
func (l *Limiter) Reguess(now time.Time, t *Ticket, e Estimate) {
	if t.client == nil {
		return
	}
	release(l.gate.reguess(l.since(now), t, e))
}

// Estimate is what a request will likely take of the backend. Its fields are
// those of Arrival.
type Estimate struct {
	Guess, Idle, Running time.Duration
	Sure                 bool
}

func (g *gate) reguess(at time.Duration, t *Ticket, e Estimate) (decided *Ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.stage != queued || t.light || t.waits {
		return nil
	}
	guess, idle := e.Guess.Seconds(), e.Idle.Seconds()
	if !e.Sure {
		g.doubt(t, e.Running.Seconds(), idle)
		return g.pump(at)
	}
	light, waits := g.laneOf(true, guess, idle)
	if !light && !waits {
		g.believe(t)
		return g.pump(at)
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
	t.guess, t.likelyIdle, t.sure, t.fresh = guess, idle, true, false
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
	t.sure, t.fresh = true, false
	g.replace(t)
}

// doubt takes a request of unknown kind for one that might be light, or that is
// dear if it is like others.
func (g *gate) doubt(t *Ticket, running, idle float64) {
	t.likelyIdle = idle
	if fresh := running <= g.limits.light; !t.sure && fresh != t.fresh {
		t.fresh = fresh
		g.replace(t)
	} else if t.heap == &g.parked {
		g.unpark()
	}
}

// replace puts the head of a lane into the heap where it belongs now. One that
// waits for its keys to hold fewer workers may hold more of them now.
func (g *gate) replace(t *Ticket) {
	switch t.heap {
	case nil:
	case &g.parked:
		g.unpark()
	default:
		t.heap.remove(t)
		g.put(t)
	}
}
