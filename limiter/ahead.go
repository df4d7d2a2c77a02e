package limiter

import (
	"math"
	"time"
)

// Who had more than its share leaves room to those who had not, and to those whose
// turn has come.

// waitsAbove is what waits on a rung and the longer ones, and not for a worker, as
// far as those who wait on this rung have to make room for it.
type waitsAbove struct {
	// overdue: a longer one waits whose turn has come, as the clock has reached its
	// rank, and nothing computes that is longer than this rung and not longer than
	// that one. Shorter ones of those who are ahead of their share could go on for ever.
	overdue bool
	// starving: the turn of somebody known was dueAfter ago, here or above. Then nobody
	// goes whose rank is after first, that of the first of these, and no rung has more
	// room because longer ones compute.
	starving bool
	first    float64
	// known: if a longer one waits that is within its share, none of such computes from
	// the next rung to its own. The least rank of them is within.
	known  bool
	within float64
}

// dueAfter is for how many seconds of the whole machine somebody may wait beyond its
// turn.
const dueAfter = 20.0

// above sees what waits above each rung at a site.
func (g *gate) above(at time.Duration, s *site) (all [rungs]waitsAbove) {
	due := s.clock.systemVirtualTime - dueAfter*g.ranking.cpus/max(s.clock.active, 1e-9)
	var x waitsAbove
	within := math.Inf(1)
	v := g.view(s)
	busy, busyKnown := 0, 0 // on the rungs from the next one to that of who waits
	for r := rung(rungs - 1); ; r-- {
		all[r] = waitsAbove{overdue: x.overdue && busy == 0, known: busyKnown == 0, within: within}
		if s.wantsRung(r) && (r <= lightRung || g.hasWorker(&v, r, true)) {
			on := g.firstOn(at, s, r)
			if on.within < math.Inf(1) {
				within, busyKnown = min(within, on.within), 0
			}
			if min(on.known, on.strange) <= s.clock.systemVirtualTime {
				x.overdue, busy = true, 0
			}
			if on.known <= due && (!x.starving || on.known < x.first) {
				x.starving, x.first = true, on.known
			}
		}
		all[r].starving, all[r].first = x.starving, x.first
		if r == 0 {
			return all
		}
		busy += v.load.computing[r]
		busyKnown += v.load.computing[r] - v.load.ahead[r]
	}
}

// wantsRung tells whether somebody waits who would compute on a rung.
func (s *site) wantsRung(r rung) bool {
	return !s.queues[r].empty() || r == unknownRung && !s.queues[fresh].empty()
}

// first is the least rank of those who wait on a rung: of those who are within their
// share, of all that are known, and of strangers.
type first struct{ within, known, strange float64 }

func (g *gate) firstOn(at time.Duration, s *site, r rung) first {
	f := first{math.Inf(1), math.Inf(1), math.Inf(1)}
	f.look(g, s, &s.queues[r], at)
	if r == unknownRung {
		f.look(g, s, &s.queues[fresh], at)
	}
	return f
}

func (f *first) look(g *gate, s *site, q *levelQueue, at time.Duration) {
	if t := q.within.top(); t != nil && g.competes(at, t) {
		f.within = min(f.within, t.rank)
		f.known = min(f.known, t.rank)
	}
	if t := q.ahead.top(); t != nil && g.competes(at, t) {
		f.known = min(f.known, t.rank)
	}
	if t := q.strange.top(); t != nil && g.competes(at, t) {
		f.strange = min(f.strange, s.strangers.rank(s, q, t))
	}
}

// competes tells whether the head of a lane may take part in the ladder now. One
// that nobody knows, and that may not hold a worker as a dear one, keeps its place if
// it may soon be tried: nobody would wake it as the pause after the last one ends.
func (g *gate) competes(at time.Duration, t *Ticket) bool {
	if t.level == fresh && !g.mayHold(t, false) && g.mayHold(t, true) {
		return false
	}
	return g.leaves(at, t)
}

// holdsUp tells whether a request of that rank waits for somebody who starves.
func (w *waitsAbove) holdsUp(rank float64) bool { return w.starving && rank > w.first }

// before tells whether a stranger's request of rung r makes room for longer ones. It
// does so for known people whose turn is before it: a newcomer's page is light, or
// there is time for it. Light ones do so only for what is overdue.
func (w *waitsAbove) before(r rung, rank float64) bool {
	return w.overdue || r > lightRung && w.known && w.within < rank
}

// use is how much CPU some requests have lately used.
type use struct {
	sum float64 // CPU-seconds, fading
	at  time.Duration
}

// usedFor is how long what was used counts, in seconds.
const usedFor = 10.0

func (u *use) add(at time.Duration, x float64) {
	u.fade(at)
	u.sum += x
}

func (u *use) fade(at time.Duration) {
	if at > u.at {
		u.sum *= math.Exp(-(at - u.at).Seconds() / usedFor)
		u.at = at
	}
}

// below tells whether the rate is below some CPU-seconds per second.
func (u *use) below(at time.Duration, rate float64) bool {
	most := rate * usedFor
	if passed := (at - u.at).Seconds(); u.sum < most || u.sum*(1-passed/usedFor) >= most {
		return u.sum < most // exp(-x) is not below 1-x
	}
	return u.rate(at) < rate
}

// rate is in CPU-seconds per second.
func (u *use) rate(at time.Duration) float64 {
	u.fade(at)
	return u.sum / usedFor
}

// leaves tells whether a long request leaves enough of the CPUs to those who are
// within their share, if its client is ahead of its own: once there, it takes its
// part for seconds, however many come then. As many may compute as CPUs are left by
// what the others lately used, rounded; somewhat more while a CPU is idle, and one more
// if its client has waited for its share. What is much longer than it does not count, as on
// the ladder: where a few exports compute for a minute, who waits for them gives up. And where
// more that are longer compute than the ladder lets go, as they seemed to wait, it leaves nobody less.
func (g *gate) leaves(at time.Duration, t *Ticket) bool {
	if t.level.rung() <= passRung || !t.ahead || !t.level.computes() {
		return true
	}
	s, v := t.site, g.view(t.site)
	more := float64(v.n - g.limits.least) // CPUs are idle if there is room for more
	switch {
	case (t.flow.virtualTime-t.applied-s.clock.systemVirtualTime)*t.flow.share <= aheadFrom:
		more++
	case float64(from(&g.load.computing, 0)) < g.ranking.cpus:
		more += max(0, 1-longPart/g.ranking.cpus)
	}
	if t.sure && beyondLadder(&v.load.ahead, t.level.rung()+1, v.n) > 0 {
		return true
	}
	one := min(0.5, 1/g.ranking.cpus)
	if long := upTo(&v.load.ahead, passRung+1, t.level.rung()+1); float64(long)+one <= g.ranking.cpus-g.within.rate(at)+more {
		return true
	}
	// What other sites used does not count against what is its own site's.
	return g.divided && float64(s.longAhead)+one <= g.guaranteed(s)-s.within.rate(at)+more
}

// longPart is what one more long request takes of an idle moment: of few CPUs a great
// part, for seconds.
const longPart = 1.5
