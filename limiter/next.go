package limiter

import (
	"math"
	"slices"
	"time"
)

// next is the request to let go next, and in which phase; nil if there is no room.
func (g *gate) next(at time.Duration) (*Ticket, phase) {
	for _, s := range g.contending {
		s.strangers.reshare(s, g.without(ruleOthersPart))
	}
	if t := g.toProbe(at); t != nil {
		return t, probing
	}
	for {
		t := g.least(at)
		if t == nil {
			break
		}
		if g.mayHold(t, false) {
			return t, t.level.phase()
		}
		g.park(t)
	}
	if !g.delaysNone {
		return nil, queued
	}
	for _, s := range g.contending {
		if t := s.nextBeyond(); t != nil {
			return t, t.level.phase()
		}
	}
	return nil, queued
}

// leastOf is the one of the least rank of a site's that may go: there is room for it
// on the ladder, and a worker. Of a site that is held back for another one only those may
// that hardly compute.
func (g *gate) leastOf(at time.Duration, s *site, held bool) *Ticket {
	c := candidate{at: at, rank: math.Inf(1)}
	alike, over := 0, 0
	for r := rung(0); r < rungs && !held; r++ {
		alike += g.load.computing[r]
		over += g.load.overShare[r]
		if !s.wantsRung(r) {
			continue
		}
		d := g.doors(at, r, alike, over)
		if d.low == closed || !g.hasWorker(r, true) {
			continue
		}
		c.look(g, s, &s.queues[r], d)
		if r == unknownRung {
			c.look(g, s, &s.queues[fresh], d)
		}
	}
	for r := lightRung + 1; r < rungs && g.hasWorker(r, false); r++ {
		c.look(g, s, &s.queues[waitsAt(r)], doors{open, open})
	}
	return c.first()
}

// candidate is the first of those that were looked at.
type candidate struct {
	at    time.Duration
	t     *Ticket
	rank  float64
	tries bool // it is to be tried, and takes no part in the ladder
	// strange is the first of the strangers by their own order, and strangeRank the
	// least rank of any of them that may go: they are one flow, which competes with the
	// others by that, and decides by itself who takes its turn.
	strange            *Ticket
	order, strangeRank float64
}

// look takes the heads of a queue into account, as far as they may go.
func (c *candidate) look(g *gate, s *site, q *levelQueue, d doors) {
	if t := q.underShare.top(); t != nil && d.of(t) != closed && c.may(g, t) {
		c.offer(t, t.rank)
	}
	if t := q.overShare.top(); t != nil && d.of(t) == open && c.may(g, t) {
		c.offer(t, t.rank)
	}
	if t := q.strange.top(); t != nil && d.of(t) == open && c.may(g, t) {
		order := s.strangers.order(s, q, t)
		c.offerStrange(t, order, order+s.strangers.lead(s))
	}
}

func (c *candidate) may(g *gate, t *Ticket) bool { return c.tries || g.competes(c.at, t) }

func (c *candidate) offer(t *Ticket, rank float64) {
	if c.t == nil || rank < c.rank || rank == c.rank && t.order < c.t.order {
		c.t, c.rank = t, rank
	}
}

func (c *candidate) offerStrange(t *Ticket, order, rank float64) {
	if c.strange == nil || rank < c.strangeRank {
		c.strangeRank = rank
	}
	if c.strange == nil || order < c.order || order == c.order && t.order < c.strange.order {
		c.strange, c.order = t, order
	}
}

// first is the one of all that were looked at.
func (c *candidate) first() *Ticket {
	if c.strange != nil {
		c.offer(c.strange, c.strangeRank)
	}
	return c.t
}

// toProbe is the request of unknown kind to try now, beside the others: behind a
// queue of dear ones a style sheet would stay unknown. One is tried at a time. As nothing
// says that it is dear, it may have a worker that is kept, and go beside one that was tried
// before it and turned out dear: else all that is not known yet would wait for that.
func (g *gate) toProbe(at time.Duration) *Ticket {
	if at < g.probeAgain || !slices.ContainsFunc(g.contending, g.mayProbe) {
		return nil
	}
	for _, s := range g.inTurn() {
		if !g.mayProbe(s) {
			continue
		}
		if t := g.toProbeOf(at, s); t != nil {
			return t
		}
	}
	return nil
}

// mayProbe tells whether there is room to try a request of a site's.
func (g *gate) mayProbe(s *site) bool {
	if s.queues[fresh].empty() {
		return false
	}
	n := &g.limits
	return !g.without(ruleProbes) && g.load.probing == 0 && g.roomForShort() && g.load.long() < max(n.longest, n.workers-keptForKnown)
}

func (g *gate) toProbeOf(at time.Duration, s *site) *Ticket {
	for q := &s.queues[fresh]; !q.empty(); {
		c := candidate{at: at, rank: math.Inf(1), tries: true}
		c.look(g, s, q, doors{open, open})
		if t := c.first(); g.mayHold(t, true) {
			return t
		}
		g.park(c.t)
	}
	return nil
}

// learn takes note that what was tried as a request that might be light is not. Its
// like, which may wait in great number, is not tried until all were looked at
// again.
func (g *gate) learn(at time.Duration, was phase) {
	if was == probing && !g.without(ruleProbePause) {
		g.probeAgain = at + probePause
	}
}

// probePause is longer than from one look at what waits to the next.
const probePause = 200 * time.Millisecond

// roomForShort tells whether a short request may go. Of workers that were not
// configured some always may: if others hold more than there seem to be, they
// find out whether there are more.
func (g *gate) roomForShort() bool {
	return g.busy < g.limits.workers || g.workers.configured == 0 && g.busy-g.load.long() < keptForKnown
}

// keptForKnown is how many workers only requests get that are known to be short.
const keptForKnown = 2

// nextBeyond is a request of the site that has to wait by the rules, and goes as the gate delays nobody; nil:
// it has none.
func (s *site) nextBeyond() *Ticket {
	for _, h := range s.heaps() {
		if t := h.top(); t != nil {
			t.beyond = true
			return t
		}
	}
	return nil
}

// heaps are all heaps of a site's lanes' heads.
func (s *site) heaps() (all [3*levels + 1]*headHeap) {
	for i := range s.queues {
		q := &s.queues[i]
		all[3*i], all[3*i+1], all[3*i+2] = &q.underShare, &q.overShare, &q.strange
	}
	all[3*levels] = &s.parked
	return all
}
