package limiter

import "time"

// All clients that nobody knows are one flow: a crawler with a new address for
// each request competes with itself. However many known clients there are, the
// strangers together get at least a third of the machine if they want it: half as much
// as all others.
//
// The turn belongs to the flow, and who takes it is decided as it comes. Where more
// come than can be served, an answer to who came first is an answer to who has
// left: then the newest takes it. Facebook (adaptive LIFO, "Fail at Scale", ACM
// Queue 2015) found the same. Before, as long as everybody is served within a
// person's patience, the first come is first served.
type strangers struct {
	flow
	noCredit bool          // a test switched that off
	newest   bool          // first
	newestTo time.Duration // until then, unless somebody else runs out of patience
}

const (
	// patience is how long a person waits before the wait is all that counts; and how long light requests are
	// not given more room than others after one of them was found not to be light.
	patience = time.Second
	// impatientFor is how long after somebody has lost patience the newest goes first.
	impatientFor = 5 * time.Second
	// leastStrangers is the least share of the machine that strangers have together.
	leastStrangers = 0.5
	// othersPart is the part of all others' shares that they have at least.
	othersPart = 0.5
	// strangersCredit is the most that counts of what they had less than their share, in
	// costs of a request.
	strangersCredit = 4
)

// reshare follows the shares of those who are known.
func (s *strangers) reshare(of *site, leastOnly bool) {
	others := of.clock.active
	if s.work > 0 {
		others -= s.share
	}
	share := leastStrangers
	if !leastOnly {
		share = max(share, othersPart*others)
	}
	s.reweigh(&of.clock, share)
}

// order is whose turn it is among strangers who wait at different levels: as if those
// of a level were one client whose next request came at q.turn. So each level gets its
// part of what strangers have, and the shortest do not take all of it.
func (s *strangers) order(of *site, q *levelQueue, t *Ticket) float64 {
	e := t.guess / s.share
	return s.turn(of, q, e) + e*t.costMultiplier
}

// rank is that of a stranger among all others.
func (s *strangers) rank(of *site, q *levelQueue, t *Ticket) float64 {
	return s.order(of, q, t) + s.lead(of)
}

// lead is what strangers have had beyond their share.
func (s *strangers) lead(of *site) float64 {
	return max(0, s.virtualTime-of.clock.systemVirtualTime)
}

// turn is when the turn of a level began. What they had less than their share counts
// for a few requests only: nobody known is to wait until a flood has had what it missed.
func (s *strangers) turn(of *site, q *levelQueue, e float64) float64 {
	if s.noCredit {
		return q.turn
	}
	return max(q.turn, of.clock.systemVirtualTime-strangersCredit*e)
}

// went moves the turn on as a stranger takes it, by its part of the service.
func (q *levelQueue) went(t *Ticket) {
	s := t.site
	e := t.guess / s.strangers.share
	q.turn = min(s.clock.systemVirtualTime, s.strangers.turn(s, q, e)+e)
}

// classOf orders strangers before the time of their coming does: who came back with
// a cookie, or asks for the parts of its page, has proved to be no stranger of a
// single request.
func (g *gate) classOf(t *Ticket) (class uint8) {
	if t.prefetch {
		class |= 1 << 7
	}
	if !(t.passed && !g.without(rulePassed)) && !(t.follows && (t.level.short() || t.level == fresh) && !g.without(ruleParts)) {
		class |= 1 << 6
	}
	if !g.without(ruleFewest) {
		class |= uint8(min(strangerAnswers, t.client.answers+t.client.running)) << 1 //nolint:gosec // few
	}
	if t.stale && !g.without(ruleStale) {
		class |= 1
	}
	return class
}

// line puts a stranger at its place among those of its level. Who has had its
// answers and comes again is on the way to be known, and is served in turn.
func (g *gate) line(t *Ticket) {
	t.class, t.rank = g.classOf(t), float64(t.order)
	if t.site.strangers.newest && t.client.answers+t.client.running < strangerAnswers {
		t.rank = -t.rank
	}
}

// losePatience marks those who have waited for too long, and has the newest
// strangers go first while there are such. Who only waits behind a request of its
// own, or has had its answers, does not count: that says nothing of the others. The
// oldest patient one is found in the list of all that wait.
func (g *gate) losePatience(at time.Duration) {
	for t := g.patient; t != nil && at-t.asked >= patience; t = g.patient {
		g.patient = t.links[byAge].behind
		if !t.stranger || t.heap == nil || t.waitEntry != nil { // a cap's wait says nothing of the gate
			continue
		}
		t.stale = true
		if t.client.answers < strangerAnswers {
			t.site.strangers.newestTo = t.asked + patience + impatientFor
		}
		if h := t.heap; h != &t.site.parked {
			h.remove(t)
			g.line(t)
			h.push(t)
		}
	}
	for _, s := range g.contending {
		if newest := at < s.strangers.newestTo && !g.without(ruleNewest); newest != s.strangers.newest {
			s.strangers.newest = newest
			g.lineUp(s)
		}
	}
}

// lineUp puts all strangers of a site at their places anew.
func (g *gate) lineUp(s *site) {
	for i := range s.queues {
		h := &s.queues[i].strange
		for _, t := range *h {
			g.line(t)
		}
		h.order()
	}
}
