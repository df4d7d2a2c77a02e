package limiter

import "time"

// next is the request to let go next, and the slot that it gets; nil if there
// is no room.
func (g *gate) next(at time.Duration) (*Ticket, stage) {
	more := g.mayTry(at)
	if t := g.nextLight(more); t != nil {
		t.tries = g.busy >= g.limits.workers
		return t, express
	}
	if t, s := g.nextLong(at); t != nil {
		return t, s
	}
	if g.open {
		return g.nextBeyond()
	}
	return nil, queued
}

// nextLight is the light request that gets an express slot.
func (g *gate) nextLight(more int) *Ticket {
	if g.expressBusy >= g.limits.express || !g.roomForShort(more) {
		return nil
	}
	for {
		l := g.light.top()
		if s := g.strange.top(); s != nil && g.strangerBusy < g.limits.strangers && (l == nil || s.precedes(l)) {
			l = s
		}
		if l == nil || g.mayBeShort(l) {
			return l
		}
		g.park(l)
	}
}

// roomForShort tells whether a short request may go. Of workers that were not
// configured some always may: if others hold more than there seem to be, they
// find out whether there are more.
func (g *gate) roomForShort(more int) bool {
	return g.busy < g.limits.workers+more || g.workers.most == 0 && g.expressBusy+g.probing < keptForKnown
}

// nextLong is the request that gets one of the workers that are not kept for
// short ones, and the slot in which it runs.
func (g *gate) nextLong(at time.Duration) (*Ticket, stage) {
	for {
		t, s := g.candidate(at)
		if t == nil {
			return nil, queued
		}
		if g.mayHold(t, s) {
			t.tries = false
			return t, s
		}
		g.park(t)
	}
}

// candidate is the first of those that need a heavy slot and can have one, or
// need none, as far as there are workers.
func (g *gate) candidate(at time.Duration) (*Ticket, stage) {
	h := g.heavy.top()
	for _, q := range [...]*heads{&g.fresh, &g.unknown} {
		switch u := q.top(); {
		case u == nil, u.fresh && at < g.probeAgain && !g.mayHold(u, heavy): // it may soon be tried
		case g.mayProbe(at, u):
			return u, probe
		case h == nil || u.precedes(h):
			h = u
		}
	}
	if h == nil && g.quiet() { // a light one rather than nobody
		if h = g.light.top(); h == nil {
			h = g.strange.top()
		}
		if h != nil && !g.mayBeShort(h) {
			h = nil // it goes on waiting for an express slot
		}
	}
	if h != nil && (g.heavyBusy >= g.limits.heavy+g.lent(h) || !g.hasWorker(heavy)) {
		h = nil
	}
	w := g.waits.top()
	if w != nil && g.hasWorker(holding) && (h == nil || w.precedes(h)) {
		return w, holding
	}
	return h, heavy
}

// mayProbe tells whether a request of unknown kind may be tried now, beside the
// heavy ones. One is at a time. If nothing speaks against that it is light, it may
// have a worker that is kept, and be more than the one that was not light before
// it: else all that is not known yet would wait for what turned out dear.
func (g *gate) mayProbe(at time.Duration, t *Ticket) bool {
	n := &g.limits
	switch {
	case g.probing > 0 || !g.roomForShort(0):
		return false
	case t.fresh:
		return at >= g.probeAgain && g.heavyBusy <= n.heavy+2*n.cpus && g.longBusy < max(n.long, n.workers-keptForKnown)
	}
	return g.heavyBusy <= n.heavy && g.hasWorker(probe)
}

// learn takes note that what was tried as a request that might be light is not. Its
// like, which may wait in great number, is not tried until all were looked at
// again.
func (g *gate) learn(at time.Duration, was stage) {
	if was == probe {
		g.probeAgain = at + probePause
	}
}

// probePause is longer than from one look at what waits to the next.
const probePause = 200 * time.Millisecond

// keptForKnown is how many workers only requests get that are known to be short.
const keptForKnown = 2

// nextBeyond is a request that would have to wait if the gate were closed.
func (g *gate) nextBeyond() (*Ticket, stage) {
	for _, h := range g.queues() {
		if t := h.top(); t != nil {
			t.beyond, t.tries = true, false
			switch {
			case t.fast:
				return t, express
			case t.waits:
				return t, holding
			}
			return t, heavy
		}
	}
	return nil, queued
}

// queues are all heaps of lanes' heads.
func (g *gate) queues() [7]*heads {
	return [...]*heads{&g.light, &g.strange, &g.heavy, &g.unknown, &g.fresh, &g.waits, &g.parked}
}
