package limiter

import (
	"container/heap"
	"iter"
	"math"
	"slices"
	"time"
)

// inTurn are the sites with requests that wait, in the order of their turns. One that lately
// had less than its share goes somewhat before its turn: its people come in no steady flow.
// Turns move as time passes; but few are looked at, and the others need no order.
func (g *gate) inTurn(at time.Duration) iter.Seq[*site] {
	return func(yield func(*site) bool) {
		g.turns = g.contending
		all := &g.turns
		if len(*all) > 1 {
			early := g.machine(siteEarly)
			for _, s := range *all {
				if s.turn = g.tag(s); s.used.below(at, g.part(s)*g.ranking.cpus) {
					s.turn -= early
				}
			}
			heap.Init(all)
		}
		for len(*all) > 0 && yield((*all)[0]) {
			heap.Pop(all)
		}
	}
}

// turns is a heap of sites by their turns. Those that were taken out lie behind it.
type turns []*site

// Len implements heap.Interface.
func (t turns) Len() int { return len(t) }

// Less implements heap.Interface.
func (t turns) Less(i, j int) bool {
	return t[i].turn < t[j].turn || t[i].turn == t[j].turn && t[i].name < t[j].name
}

// Swap implements heap.Interface.
func (t turns) Swap(i, j int) { t[i], t[j] = t[j], t[i] }

// Push implements heap.Interface.
func (*turns) Push(any) {}

// Pop implements heap.Interface.
func (t *turns) Pop() any {
	*t = (*t)[:len(*t)-1]
	return nil
}

// least is the request to go next of those that may go: that of the site whose turn it is.
// A site that has no room leaves its turn to the next one, but those that are ahead of it
// leave room.
func (g *gate) least(at time.Duration) *Ticket {
	if len(g.contending) == 1 {
		s := g.contending[0] // others may run all the same
		return g.leastOf(at, s, g.isHeldFor(at, s, math.Inf(1)))
	}
	owed := math.Inf(1) // the least tag of the sites that have no room
	open := g.openRungs(at)
	if !slices.ContainsFunc(g.contending, func(s *site) bool { return s.wantsOne(&open) }) {
		return nil
	}
	for s := range g.inTurn(at) {
		if !s.wantsOne(&open) {
			// it has no room at all
		} else if t := g.leastOf(at, s, g.isHeldFor(at, s, owed)); t != nil {
			return t
		}
		if math.IsInf(owed, 1) && g.wantsRoom(at, s) {
			owed = g.tag(s)
		}
	}
	return nil
}

// openRungs tells where on the ladder somebody may go of a site that delays.
func (g *gate) openRungs(at time.Duration) (open [rungs]bool) {
	v := g.viewOf(false)
	alike, ahead := 0, 0
	for r := range open {
		alike += v.load.computing[r]
		ahead += v.load.ahead[r]
		// Who may go to the upper half of a rung may go to the lower one, too.
		open[r] = g.access(at, &v, rung(r), alike, ahead, false) != closed
	}
	return open
}

// wantsOne tells whether somebody waits for one of those rungs, or for a worker alone; or is
// not to wait.
func (s *site) wantsOne(open *[rungs]bool) bool {
	if s.open {
		return true
	}
	for r := range rung(rungs) {
		if open[r] && s.wantsRung(r) {
			return true
		}
	}
	for l := waitsAt(0); int(l) < levels; l++ {
		if !s.queues[l].empty() {
			return true
		}
	}
	return false
}

// isHeldFor tells whether a site leaves room to the one whose tag is owed, or to the others
// with requests at the backend, as it lately had its share, or more. Not while a CPU may be
// idle.
func (g *gate) isHeldFor(at time.Duration, s *site, owed float64) bool {
	if !g.divided || from(&g.load.computing, 0) < g.limits.n {
		return false
	}
	used, mine := s.used.rate(at), g.part(s)*g.ranking.cpus
	return used > nearlyAll*mine && g.tag(s) > owed+g.machine(siteSlack) || used > mine && g.view(s).busy > s.busy
}

// isBehind tells whether a site leaves room to another one.
func (g *gate) isBehind(at time.Duration, s *site) bool {
	owed := math.Inf(1)
	if o := g.before(at, s); o != nil {
		owed = g.tag(o)
	}
	return g.isHeldFor(at, s, owed)
}

// before is, of the sites that wait for room and whose turn is before this one's, the first;
// nil: there is none.
func (g *gate) before(at time.Duration, s *site) (first *site) {
	for _, o := range g.contending {
		if g.tag(o) < g.tag(s) && (first == nil || g.tag(o) < g.tag(first)) && g.wantsRoom(at, o) {
			first = o
		}
	}
	return first
}

// isLight tells whether the light requests of a site are by themselves within its share. Then
// they go, whatever the site had beside them: they are people's.
func (g *gate) isLight(at time.Duration, s *site) bool {
	return s.light.rate(at) <= nearlyAll*g.part(s)*g.ranking.cpus
}

// wantsRoom tells whether somebody of a site waits for nothing but room on the ladder.
func (g *gate) wantsRoom(at time.Duration, s *site) bool {
	v := g.view(s)
	for l := range fresh {
		q := &s.queues[l]
		if q.empty() || !g.hasWorker(&v, l.rung(), true) {
			continue
		}
		for _, t := range [...]*Ticket{q.within.top(), q.ahead.top(), q.strange.top()} {
			if t != nil && g.competes(at, t) && g.mayHold(t, false) {
				return true
			}
		}
	}
	return false
}
