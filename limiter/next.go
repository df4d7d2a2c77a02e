package limiter

import (
	"math"
	"slices"
	"time"
)

// next is the request to let go next, and in which phase; nil if there is no room.
func (g *gate) next(at time.Duration) (*Ticket, phase) {
	for _, s := range g.contending {
		s.strangers.reshare(s)
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
	for _, s := range g.contending {
		if t := s.nextBeyond(); t != nil {
			return t, t.level.phase()
		}
	}
	return nil, queued
}

// leastOf is the one of the least rank of a site's that may go: there is room for it
// on the ladder, and a worker. Of a site that is held back for another one only light ones
// may, which are within its share, and those that hardly compute.
func (g *gate) leastOf(at time.Duration, s *site, held bool) *Ticket {
	c := candidate{at: at, rank: math.Inf(1)}
	v, above := g.view(s), g.above(at, s)
	free := rung(rungs) // from here on it is held back
	if held {
		free = 0
		if g.isLight(at, s) {
			free = lightRung + 1
		}
	}
	alike, ahead := 0, 0
	for r := range rung(rungs) {
		alike += v.load.computing[r]
		ahead += v.load.ahead[r]
		if !s.wantsRung(r) || r >= free {
			continue
		}
		w := above[r]
		d := g.doors(at, &v, r, alike, ahead, w.starving)
		if d.low == closed && r > passRung {
			break
		}
		if d.low != closed && g.hasWorker(&v, r, true) {
			c.lookAt(g, s, r, d, w)
		}
	}
	for r := lightRung + 1; r < rungs && g.hasWorker(&v, r, false); r++ {
		c.look(g, s, &s.queues[waitsAt(r)], r, doors{open, open}, waitsAbove{})
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

// lookAt takes those into account that would compute on a rung.
func (c *candidate) lookAt(g *gate, s *site, r rung, d doors, w waitsAbove) {
	c.look(g, s, &s.queues[r], r, d, w)
	if r == unknownRung {
		c.look(g, s, &s.queues[fresh], r, d, w)
	}
}

// look takes the heads of a queue into account, as far as they may go.
func (c *candidate) look(g *gate, s *site, q *levelQueue, r rung, d doors, w waitsAbove) {
	if t := q.within.top(); t != nil && d.of(t) != closed && !w.holdsUp(t.rank) && c.may(g, t) {
		c.offer(t, t.rank)
	}
	if t := q.ahead.top(); t != nil && d.of(t) == open && !w.overdue && !w.holdsUp(t.rank) && c.may(g, t) {
		c.offer(t, t.rank)
	}
	if t := q.strange.top(); t != nil && d.of(t) >= toOthers && c.may(g, t) {
		order := s.strangers.order(s, q, t)
		if rank := order + s.strangers.lead(s, t); !w.before(r, rank) && !w.holdsUp(rank) {
			c.offerStrange(t, order, rank)
		}
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
	for s := range g.inTurn(at) {
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
	v, n := g.view(s), &g.limits
	return v.load.probing == 0 && g.roomForShort(&v) &&
		v.load.long() < max(v.longest(n), v.workers-keptForKnown) && from(&v.load.computing, unknownRung) < v.n+n.cpus
}

func (g *gate) toProbeOf(at time.Duration, s *site) *Ticket {
	for q := &s.queues[fresh]; !q.empty(); {
		c := candidate{at: at, rank: math.Inf(1), tries: true}
		c.look(g, s, q, unknownRung, doors{open, open}, waitsAbove{})
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
func (g *gate) learn(at time.Duration, t *Ticket, was phase) {
	if was == probing && g.teaches(t) {
		g.probeAgain = at + probePause
	}
}

// teaches tells whether what a request turns out to be says how others are to be
// delayed: those that nobody delays may be any number.
func (g *gate) teaches(t *Ticket) bool { return !t.undelayed || !g.delays }

const (
	// probePause is longer than from one look at what waits to the next.
	probePause = 200 * time.Millisecond
	// distrust is how long light ones are not given more room than others after one
	// of them was found not to be light.
	distrust = time.Second
)

// roomForShort tells whether a short request may go. Of workers that were not
// configured some always may: if others hold more than there seem to be, they
// find out whether there are more.
func (g *gate) roomForShort(v *view) bool {
	return v.busy < v.workers || g.workers.said == 0 && v.busy-v.load.long() < keptForKnown
}

// keptForKnown is how many workers only requests get that are known to be short.
const keptForKnown = 2

// nextBeyond is a request of the site that would have to wait, if the site delays nobody; nil:
// it does, or has none.
func (s *site) nextBeyond() *Ticket {
	if !s.open {
		return nil
	}
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
		all[3*i], all[3*i+1], all[3*i+2] = &q.within, &q.ahead, &q.strange
	}
	all[3*levels] = &s.parked
	return all
}
