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
	t.undelayed = g.delaysNone
	g.addBusy(t, 1)
	t.began = at
	if r := t.level.rung(); p == probing {
		g.countIn(t, probing, 0)
	} else {
		g.countIn(t, p, r)
	}
}

// goAhead explains why and how long a request has waited.
func (t *Ticket) goAhead(at time.Duration) Verdict {
	v := t.verdict // a cap's, or a shadow's
	v.Action, v.Lane, v.CostMultiplier, v.Known, v.Ahead = Go, Heavy, float32(t.costMultiplier), !t.stranger, t.overShare
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
func (g *gate) progress(at time.Duration, t *Ticket, x float64, computes bool) {
	g.mu.Lock()
	defer g.unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != running || !t.phase.running() {
		return
	}
	if x > t.charged {
		t.applied += g.chargeFlow(t, x-t.paid)
		t.paid = x
		t.adjustLocked(at, x)
	}
	g.chargeSite(t, x)
	was, from := t.phase, t.rung
	r := from
	if !g.without(ruleClimbs) {
		r = max(from, rungOf(t.charged))
	}
	switch {
	case t.stays || !computes && !g.without(ruleWaits):
		g.move(t, holding, r)
	case was != probing || t.charged > light:
		g.move(t, computing, r)
	}
	if t.phase == was && t.rung == from {
		return
	}
	if t.phase != was {
		g.learn(at, was)
	}
	if t.level.short() && t.rung > lightRung && from <= lightRung {
		g.trustAgain = at + patience
	}
	g.dispatch(at)
}

// end takes a running request out.
func (g *gate) end(t *Ticket) {
	g.addBusy(t, -1)
	g.unorphan(t)
	g.countOut(t)
	if t.rung <= lightRung {
		g.unpark()
	}
	t.phase = outside
	t.leaveFlow(g)
}

// finish takes a request out that has cost x CPU-seconds, and forgets one that never waited:
// nobody else knows it, and its memory may soon be another one's.
func (g *gate) finish(at time.Duration, t *Ticket, x float64) {
	g.mu.Lock()
	defer g.unlock()
	if !t.phase.running() {
		return
	}
	g.settle(t, x)
	t.site.clock.serve(x)
	g.settleSite(at, t, x)
	if !t.overShare && t.rung <= passRung {
		g.usedUnderShare.add(at, x)
	}
	g.answered(at, t)
	g.end(t)
	if t.decidedAtOnce {
		t.queueEntry = queueEntry{}
	}
	g.dispatch(at)
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
func (g *gate) abandon(at time.Duration, t *Ticket) {
	g.mu.Lock()
	defer g.unlock()
	switch t.phase {
	case outside:
		return
	case queued:
		g.drop(at, t)
	case probing, computing, holding:
		t.flow.virtualTime -= t.applied
		g.undoSite(t)
		g.end(t)
	}
	g.dispatch(at)
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
	g.decided.add(t)
}

// shedOne refuses a request as the queue is full, of the site that has the most for its share: of
// the flow that has the most work, as dropping from the fattest flow (fq_codel, RFC 8290) keeps a
// flood from pushing others out; there a longest one; and of those the newest one of the client that
// ranks worst. Parts of pages that were just served go last, however many they are, as a page is broken
// without them.
func (g *gate) shedOne(at time.Duration) {
	var worst *Ticket
	for _, h := range g.fattest().heaps() {
		for _, head := range *h {
			if t := head.lane.leastWanted(); worst == nil || t.isShedBefore(worst) {
				worst = t
			}
		}
	}
	g.shed++
	g.refuse(at, worst, ServerFull)
}

// leastWanted is the newest request of the lane that is no part of a page; or else the newest one.
func (l *lane) leastWanted() *Ticket {
	for t := l.last; t != nil; t = t.links[inLane].before {
		if !t.follows {
			return t
		}
	}
	return l.last
}

// isShedBefore tells which one of two lanes' a full queue refuses. The lanes' heads have their ranks.
func (t *Ticket) isShedBefore(o *Ticket) bool {
	switch {
	case t.follows != o.follows:
		return o.follows
	case t.flow.work != o.flow.work:
		return t.flow.work > o.flow.work
	case t.level.rung() != o.level.rung():
		return t.level.rung() > o.level.rung()
	}
	return o.lane.first.precedes(t.lane.first)
}

// expire refuses who has waited too long, and returns how long until the next
// one will have; negative: nobody waits.
func (g *gate) expire(at time.Duration) (next time.Duration) {
	g.mu.Lock()
	defer g.unlock()
	g.dispatch(at)
	for t := g.all.first; t != nil; t = g.all.first {
		if left := t.asked + g.limits.maxWait - at; left > 0 {
			return left
		}
		g.refuse(at, t, Busy)
	}
	return -1
}

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
