package limiter

import "time"

// longAfter is what a request may cost in CPU-seconds until it is a long job.
const longAfter = 5.0

// start lets a waiting request go.
func (g *gate) start(at time.Duration, t *Ticket, s stage) {
	g.dequeue(at, t)
	g.busy++
	if t.tries {
		g.trying++
	}
	t.began = at
	g.take(t, s)
	g.try(t)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state = running
	t.verdict = t.goAhead(at, g)
	for i := range t.slots[:t.n] {
		t.slots[i].waited += t.atGate(at) // it waited for others' sake, and so did all its keys
	}
}

// goAhead explains why and how long a request has waited.
func (t *Ticket) goAhead(at time.Duration, g *gate) Verdict {
	v := t.verdict // a cap's, or a shadow's
	v.Action, v.Lane, v.Price, v.Known = Go, Heavy, float32(t.price), t.flow != &g.strangers
	if t.light {
		v.Lane = Light
	}
	if v.Shadow {
		return v
	}
	v.Wait = at - t.asked
	if v.Reason == None && (v.Wait > 0 || t.beyond) {
		v.Reason, v.Shadow = Busy, t.beyond
	}
	return v
}

// progress charges a running request on, and moves it to the slot that it
// belongs in.
func (g *gate) progress(at time.Duration, t *Ticket, x float64, computes bool) (decided *Ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != running || t.stage < express {
		return nil
	}
	g.watch(at, t)
	lending := g.lending
	if at-t.began > lendAfter {
		g.lend(t)
	}
	if more := x - t.charged; more > 0 {
		t.applied += t.flow.charge(g, x-t.paid)
		t.paid = x
		t.adjustLocked(at, x)
	}
	was := t.stage
	g.move(t, g.belongs(t, computes))
	if t.stage == was && g.lending == lending {
		return nil
	}
	if t.stage != was {
		g.learn(at, was)
	}
	return g.pump(at)
}

// belongs is the slot for a running request that computes, or does not.
func (g *gate) belongs(t *Ticket, computes bool) stage {
	switch {
	case t.stays, !computes:
		return holding
	case t.charged > longAfter && t.stage == heavy && !t.orphan && g.mayStay(t):
		t.stays = true
		return holding
	case t.stage == holding, t.charged > g.limits.light: // it was not light
		return heavy
	}
	return t.stage
}

// mayStay tells whether a long job is to give its slot back, and hold its worker
// for as long as it takes: so few do that others still get their turn, and half
// as few strangers. Nobody makes room for others by leaving a job behind.
func (g *gate) mayStay(t *Ticket) bool {
	if t.flow == &g.strangers {
		return g.holding < g.limits.long/4
	}
	return g.holding < g.limits.long/2
}

// end takes a running request out.
func (g *gate) end(at time.Duration, t *Ticket) {
	g.prove(at, t)
	g.busy--
	g.ended++
	if t.tries {
		t.tries = false
		g.trying--
	}
	g.unorphan(t)
	g.free(t)
	t.stage = outside
	t.flow.leave(g)
}

// finish takes a request out that has cost x CPU-seconds.
func (g *gate) finish(at time.Duration, t *Ticket, x float64) (decided *Ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.stage < express {
		return nil
	}
	g.settle(t, x)
	g.serve(x)
	g.answered(at, t)
	g.end(at, t)
	return g.pump(at)
}

// settle makes x CPU-seconds of what the flow was charged with, and gives back
// no more than was really taken.
func (g *gate) settle(t *Ticket, x float64) {
	if x > t.paid {
		t.flow.charge(g, x-t.paid)
	} else if t.paid > 0 {
		t.flow.tag -= t.applied * (1 - x/t.paid)
	}
}

// abandon takes a request out, waiting or running, that is never settled. All
// is given back.
func (g *gate) abandon(at time.Duration, t *Ticket) (decided *Ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch t.stage {
	case outside:
		return nil
	case queued:
		g.drop(at, t)
	case express, heavy, probe, holding:
		t.flow.tag -= t.applied
		g.end(at, t)
	}
	return g.pump(at)
}

// drop takes a waiting request out, and gives back what its flow was charged.
func (g *gate) drop(at time.Duration, t *Ticket) {
	t.flow.tag -= t.applied
	t.applied = 0
	g.dequeue(at, t)
	t.stage = outside
	t.flow.leave(g)
}

// refuse ends a waiting request that may not go.
func (g *gate) refuse(at time.Duration, t *Ticket, r Reason) {
	g.drop(at, t)
	t.refuse(at, Verdict{Action: Refuse, Wait: retry, Reason: r})
}

// shedOne refuses the newest request of the client that ranks worst, of the
// flow that has the most work: dropping from the fattest flow (as fq_codel
// does, RFC 8290) keeps a flood from pushing others out.
func (g *gate) shedOne(at time.Duration, decided *Ticket) *Ticket {
	var worst *Ticket
	for _, h := range g.queues() {
		for _, t := range *h {
			if worst == nil || t.flow.work > worst.flow.work || t.flow.work == worst.flow.work && worst.precedes(t) {
				worst = t
			}
		}
	}
	if worst == nil {
		return decided
	}
	worst = worst.lane().last
	g.shed++
	g.refuse(at, worst, ServerFull)
	return worst.chain(decided)
}

// expire refuses who has waited too long, and returns how long until the next
// one will have; negative: nobody waits.
func (g *gate) expire(at time.Duration) (decided *Ticket, next time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	decided = g.pump(at)
	for t := g.oldest; t != nil; t = g.oldest {
		if left := t.asked + g.limits.maxWait - at; left > 0 {
			return decided, left
		}
		g.refuse(at, t, Busy)
		decided = t.chain(decided)
	}
	return decided, -1
}
