package limiter

import "time"

// A backend has two resources: CPUs and workers. A request that waits for a
// database, a long poll that waits for news, an event stream: each holds a worker
// and takes next to no CPU, so that the CPUs, idle, seem to ask for more of them,
// until no worker is left and a page of a millisecond waits for a minute.
//
// So all requests that are not short, those that compute and those that wait, may
// hold some of the workers only; the rest is kept for short ones, whatever the
// CPUs do. Of those that they may hold, one client and one network get a part.
// And who leaves before the answer leaves an orphan behind, which the backend
// goes on with: it keeps its place, and its client gets few of them.

const (
	// waitsFrom is how long a request likely holds its worker without computing,
	// in seconds, to count as one that waits, as long as that is most of its time.
	waitsFrom = 1.0
	// keptOf16 of 16 workers are kept for short requests.
	keptOf16 = 5
	// fewOrphans is how many a client may have at least until its next request that
	// is not short has to wait: who reloads a slow page does nothing wrong.
	fewOrphans = 2
)

// Hold says that a running request keeps its worker until it ends, and hardly
// computes: an event stream, an upgraded connection.
func (l *Limiter) Hold(now time.Time, t *Ticket) {
	if t.client != nil {
		release(l.gate.holdOn(l.since(now), t))
	}
}

func (g *gate) holdOn(at time.Duration, t *Ticket) (decided *Ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.stage < express || t.stays {
		return nil
	}
	t.stays = true
	g.learn(at, t.stage)
	g.move(t, holding)
	return g.pump(at)
}

// Orphan says that the client of a running request has left. The request keeps
// its place until the backend has finished with it.
func (l *Limiter) Orphan(_ time.Time, t *Ticket) {
	if t.client == nil {
		return
	}
	g := l.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.stage < express || t.orphan {
		return
	}
	t.orphan = true
	g.orphans++
	t.each(func(s *slot) { s.bucket.orphans++ })
}

// short tells whether a running request is one that the kept workers are for.
func (s stage) short() bool { return s == express }

// move puts a running request into another slot, or, holding, into none.
func (g *gate) move(t *Ticket, s stage) {
	if t.stage == s {
		return
	}
	g.free(t)
	g.take(t, s)
}

// take counts a request in.
func (g *gate) take(t *Ticket, s stage) {
	t.stage = s
	switch s {
	case express:
		t.client.expressBusy++
		g.expressBusy++
		if t.flow == &g.strangers {
			g.strangerBusy++
		}
	case probe:
		g.probing++
	case heavy:
		g.heavyBusy++
	case holding:
		g.holding++
	case outside, queued:
	}
	if !s.short() {
		g.countLong(t, 1)
	}
}

// free counts a running request out.
func (g *gate) free(t *Ticket) {
	switch t.stage {
	case express:
		g.expressBusy--
		if t.flow == &g.strangers {
			g.strangerBusy--
		}
		c := t.client
		c.expressBusy--
		if head := c.light.first; head != nil && head.heap != nil && !head.fast {
			head.heap.remove(head)
			g.put(head) // it may have an express slot now
		}
	case heavy:
		g.heavyBusy--
		if t.lends {
			t.lends = false
			g.lending--
		}
	case probe:
		g.probing--
	case holding:
		g.holding--
	case outside, queued:
	}
	if !t.stage.short() {
		g.countLong(t, -1)
		g.unpark()
	}
}

// countLong counts a request that is not short, for its keys as well.
func (g *gate) countLong(t *Ticket, n int32) {
	g.longBusy += int(n)
	if t.flow == &g.strangers {
		g.strangerLong += int(n)
	}
	t.each(func(s *slot) { s.bucket.holds += n })
}

// unorphan ends an orphan, if it is one.
func (g *gate) unorphan(t *Ticket) {
	if !t.orphan {
		return
	}
	t.orphan = false
	g.orphans--
	t.each(func(s *slot) { s.bucket.orphans-- })
	g.unpark()
}

// lendAfter is how long a request has its heavy slot for itself.
const lendAfter = 2 * time.Second

// lend has a request in a heavy slot lend it, once, that has run for long: another
// long job, an orphan, what waits though the CPUs are too full to tell.
func (g *gate) lend(t *Ticket) {
	if t.stage == heavy && !t.lends {
		t.lends = true
		g.lending++
	}
}

// lent is how many heavy slots more a request may have, of those that are lent.
// A stranger, who has left an orphan behind, and who has more than one that is not
// short at the backend, waits for its own; nobody else does.
func (g *gate) lent(t *Ticket) int {
	if b := t.slots[0].bucket; t.stranger || b == nil || b.orphans > 0 || b.holds > 1 {
		return 0
	}
	return min(g.lending, g.limits.cpus)
}

// hasWorker tells whether there is a worker for a request that is not short. Those
// that only hold one leave some to those that wait for a CPU, which would else be
// idle; and where they took these while nobody wanted them, the others may have as
// many of those that are kept.
func (g *gate) hasWorker(s stage) bool {
	n := &g.limits
	switch {
	case g.busy >= n.workers:
		return false
	case s == holding && len(g.heavy)+len(g.unknown)+len(g.fresh) > 0:
		return g.longBusy < n.long && g.holding < max(1, n.long-n.least)
	case s != holding && g.heavyBusy < n.least:
		return g.longBusy < min(n.long+n.least, max(n.long, n.workers-keptForKnown))
	}
	return g.longBusy < n.long
}

// mayHold tells whether the keys of a request hold few enough workers for it.
// Those that compute are not kept from any CPU by that, and short ones hold none
// for long: only if their client holds some more than it may, all of them came as
// short ones and were not; or if the workers that are kept are being used up.
func (g *gate) mayHold(t *Ticket, s stage) bool {
	most, least := g.limits.long, 1
	if t.light || t.fresh && s == probe {
		return g.mayBeShort(t)
	}
	computes := t.likelyIdle < waitsFrom
	if computes {
		least = g.limits.least
	}
	if t.flow == &g.strangers && g.strangerLong >= max(most/2, least) && !(computes && t.sure && g.heavyBusy < least && t.holdsNone()) {
		return false
	}
	for i := range t.slots[:t.n] {
		s := &t.slots[i]
		if s.bucket == nil || s.workers <= 0 {
			continue
		}
		part := int(s.workers * float32(most))
		if int(s.bucket.holds) >= max(part, least) || int(s.bucket.orphans) >= max(part/2, fewOrphans) {
			return false
		}
	}
	return true
}

// holdsNone tells whether the request's client holds no worker for long.
func (t *Ticket) holdsNone() bool { return t.slots[0].bucket.holds == 0 }

// mayBeShort tells whether a light request may have one of the workers that are
// kept.
func (g *gate) mayBeShort(t *Ticket) bool {
	holds := func(i int) int {
		if s := &t.slots[i]; s.bucket != nil && s.workers > 0 {
			return int(s.bucket.holds)
		}
		return 0
	}
	if g.longBusy > g.limits.long+g.limits.least {
		return holds(0) == 0
	}
	if c := t.slots[0].bucket; t.fresh && c != nil && c.orphans >= fewOrphans {
		return false
	}
	for i := range t.slots[:t.n] {
		if holds(i) > int(t.slots[i].workers*float32(g.limits.long))+g.limits.least {
			return false
		}
	}
	return true
}

// park has the head of a lane wait until its keys hold fewer workers.
func (g *gate) park(t *Ticket) {
	t.heap.remove(t)
	g.parked.push(t)
}

// unpark has those compete again whose keys hold few enough workers now.
func (g *gate) unpark() {
	for i := 0; i < len(g.parked); i++ {
		if t := g.parked[i]; g.mayHold(t, probe) {
			g.parked.remove(t)
			g.put(t)
			i = -1 // the heap is in another order now
		}
	}
}

// wanted tells whether somebody waits for a heavy slot who may hold a worker.
func (g *gate) wanted() bool {
	for _, h := range []*heads{&g.heavy, &g.unknown, &g.fresh} {
		for t := h.top(); t != nil; t = h.top() {
			if g.mayHold(t, heavy) {
				return true
			}
			if t.fresh && g.mayHold(t, probe) {
				break // it waits for its turn as the probe
			}
			g.park(t)
		}
	}
	return false
}
