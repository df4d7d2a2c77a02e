package limiter

import "time"

// start lets a waiting request go.
func (g *gate) start(at time.Duration, t *Ticket, p phase) {
	g.begin(at, t, p)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state = running
	t.verdict = t.goAhead(at)
	t.verdict.SiteAhead, t.verdict.SiteWithin = g.hasOfItsShare(at, t.site)
	t.verdict.Undelayed = t.undelayed
	t.site.waited += at - t.gated
	for i := range t.reservations[:t.n] {
		t.reservations[i].Waited += t.atGate(at) // it waited for others' sake, and so did all its keys
	}
}

// begin counts a waiting request as one at the backend.
func (g *gate) begin(at time.Duration, t *Ticket, p phase) {
	if t.stranger {
		t.site.queues[t.level].went(t)
		g.charge(t)
		t.each(func(s *reservation) { s.Reserve(at, t.guess) })
	}
	g.takeTurn(t)
	g.dequeue(at, t)
	t.undelayed = t.site.open
	g.goes(t, 1)
	t.began = at
	if r := t.level.rung(); p == probing {
		g.take(t, probing, 0)
	} else {
		g.take(t, p, r)
	}
}

// goAhead explains why and how long a request has waited.
func (t *Ticket) goAhead(at time.Duration) Verdict {
	v := t.verdict // a cap's, or a shadow's
	v.Action, v.Lane, v.CostMultiplier, v.Known, v.Ahead = Go, Heavy, float32(t.costMultiplier), !t.stranger, t.ahead
	if t.level.short() {
		v.Lane = Light
	}
	waited := at - t.asked
	if v.Shadow && waited == 0 {
		return v
	}
	if v.Shadow { // what it did wait for counts, and not what it would have
		v.Shadow, v.Key, v.Reason = false, Key{}, None
	}
	v.Wait = waited
	if v.Reason == None && (v.Wait > 0 || t.beyond) {
		v.Reason, v.Shadow = Busy, t.beyond
	}
	return v
}

// progress charges a running request on, and moves it to the rung where it
// belongs.
func (g *gate) progress(at time.Duration, t *Ticket, x float64, computes bool) (decided *Ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != running || !t.phase.running() {
		return nil
	}
	if x > t.charged {
		t.applied += g.chargeFlow(t, x-t.paid)
		t.paid = x
		t.adjustLocked(at, x)
	}
	g.chargeSite(t, x)
	was, from := t.phase, t.rung
	r := max(from, rungOf(t.charged))
	switch {
	case t.stays || !computes:
		g.move(t, holding, r)
	case was != probing || t.charged > light:
		g.move(t, computing, r)
	}
	if t.phase == was && t.rung == from {
		return nil
	}
	if t.phase != was {
		g.learn(at, t, was)
	}
	if t.level.short() && t.rung > lightRung && from <= lightRung && g.teaches(t) {
		g.trustAgain = at + distrust
	}
	return g.dispatch(at)
}

// end takes a running request out.
func (g *gate) end(at time.Duration, t *Ticket) {
	g.goes(t, -1)
	g.unorphan(t)
	g.free(t)
	if t.rung <= lightRung {
		g.unpark()
	}
	t.phase = outside
	t.leaveFlow(g)
}

// finish takes a request out that has cost x CPU-seconds, and forgets one that never waited:
// nobody else knows it, and its memory may soon be another one's.
func (g *gate) finish(at time.Duration, t *Ticket, x float64) (decided *Ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !t.phase.running() {
		return nil
	}
	g.settle(t, x)
	t.site.clock.serve(x)
	g.settleSite(at, t, x)
	if !t.ahead && t.rung <= passRung {
		g.within.add(at, x)
		if g.divided {
			t.site.within.add(at, x)
		}
	}
	g.answered(at, t)
	g.end(at, t)
	if t.decidedAtOnce {
		t.queueEntry = queueEntry{}
	}
	return g.dispatch(at)
}

// settle makes x CPU-seconds of what the flow was charged with, and gives back
// no more than was really taken.
func (g *gate) settle(t *Ticket, x float64) {
	if x > t.paid {
		g.chargeFlow(t, x-t.paid)
	} else if t.paid > 0 {
		t.flow.virtualTime -= t.applied * (1 - x/t.paid)
	}
}

// abandon takes a request out, waiting or running, that is never settled. All
// is given back.
func (g *gate) abandon(at time.Duration, t *Ticket) (decided *Ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch t.phase {
	case outside:
		return nil
	case queued:
		g.drop(at, t)
	case probing, computing, holding:
		t.flow.virtualTime -= t.applied
		g.undoSite(t)
		g.end(at, t)
	}
	return g.dispatch(at)
}

// drop takes a waiting request out, and gives back what its flow was charged.
func (g *gate) drop(at time.Duration, t *Ticket) {
	t.flow.virtualTime -= t.applied
	t.applied = 0
	g.dequeue(at, t)
	t.phase = outside
	t.leaveFlow(g)
}

// refuse ends a waiting request that may not go.
func (g *gate) refuse(at time.Duration, t *Ticket, r Reason) {
	own := r == Busy && g.isOwnDoing(at, t)
	t.site.waited += at - t.gated
	t.site.refused++
	g.drop(at, t)
	t.refuse(at, Verdict{Action: Refuse, Wait: retry, Reason: r, Own: own})
}

// shedOne refuses the newest request of the client that ranks worst, of the
// flow that has the most work, of the site that has the most for its share: dropping from
// the fattest flow (as fq_codel does, RFC 8290) keeps a flood from pushing others out.
func (g *gate) shedOne(at time.Duration, decided *Ticket) *Ticket {
	var worst *Ticket
	for _, h := range g.fattest().heaps() {
		for _, t := range *h {
			if worst == nil || t.flow.work > worst.flow.work || t.flow.work == worst.flow.work && worst.precedes(t) {
				worst = t
			}
		}
	}
	if worst == nil {
		return decided
	}
	worst = worst.lane.last
	g.Shed++
	g.refuse(at, worst, ServerFull)
	return worst.chain(decided)
}

// expire refuses who has waited too long, and returns how long until the next
// one will have; negative: nobody waits.
func (g *gate) expire(at time.Duration) (decided *Ticket, next time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	decided = g.dispatch(at)
	for t := g.oldest; t != nil; t = g.oldest {
		if left := t.asked + g.limits.maxWait - at; left > 0 {
			return decided, left
		}
		g.refuse(at, t, Busy)
		decided = t.chain(decided)
	}
	return decided, -1
}
