package limiter

// Some sites may delay nobody: they are observed, or in shadow. Their requests go as they
// come, beside those of sites that do. Nothing keeps them from filling the machine; but if
// those of the others waited until it is empty again, they would wait for ever.
//
// So a site that delays goes by what sites that delay have at the backend, and has the room
// there that it would have without the others; and more, where these have more at the backend
// than their share: then as many of its requests may be there as its share makes of those. A
// backend knows nothing of sites, and serves each by the number of its requests: that is how
// a share is kept where nobody else can be kept back. Where fewer ask than that, they go at
// once, as if they were of an observed site, too. Beside a very small share that would be any
// number; so there are at most as many more than the others as there are workers, which
// leaves the site an order of its own.
//
// The requests that go as they come are judged by all that is at the backend: that tells what
// would have become of them.

// view is what the gate goes by for the requests of a site.
type view struct {
	load    *load // of all whose requests it goes by
	busy    int
	workers int // for them
	n       int // that compute, of a size and shorter
	within  int // the same of those whose client is not ahead of its share

	all   *load
	ratio float64 // of the shares of all whose requests it goes by to those of all others
}

// view is what the gate goes by for a site.
func (g *gate) view(s *site) view { return g.viewOf(s.open) }

// viewOf is what it goes by for those that delay nobody, or the others.
func (g *gate) viewOf(open bool) view {
	n := &g.limits
	v := view{load: &g.load, busy: g.busy, workers: n.workers, n: n.n, within: n.n, all: &g.load}
	if open || g.busy == g.delayed.busy || g.openShare <= 0 {
		return v
	}
	v.load, v.busy = &g.delayed.load, g.delayed.busy
	v.ratio = max(0, g.clock.active-g.openShare) / g.openShare
	v.workers = v.room(n.workers, g.busy-v.busy, n.least+keptForKnown)
	v.within = max(n.n, v.part(v.all.computes()-v.load.computes(), v.workers))
	v.n = max(n.n, min(v.within, v.longest(n)))
	return v
}

// part is how many requests the share makes of some that go as they come.
func (v *view) part(beside, most int) int {
	return int(min(float64(beside)*v.ratio+0.5, float64(most)))
}

// room is how many workers of some there are beside so many requests that go as they come.
func (v *view) room(workers, beside, least int) int {
	return max(workers-beside, v.part(beside, workers+beside), min(least, workers))
}

// mostOf is how many requests as long as rung r says, or longer, may hold a worker.
func (v *view) mostOf(n *limits, r rung) int { return v.roomFrom(n, n.most[r], r) }

// longest is how many requests that are not short the keys and the site may hold parts of.
func (v *view) longest(n *limits) int { return v.roomFrom(n, n.longest(), lightRung+1) }

// roomFrom is how many of some workers there are beside those that requests of rung r, and
// longer ones, hold that go as they come.
func (v *view) roomFrom(n *limits, workers int, r rung) int {
	if v.load == v.all {
		return workers
	}
	return v.room(workers, from(&v.all.held, r)-from(&v.load.held, r), n.least)
}

// ofDelayed counts what the sites that delay have at the backend.
type ofDelayed struct {
	load load
	busy int
}

// weighOpen counts the share of a site that delays nobody while it wants something.
func (g *gate) weighOpen(s *site) {
	g.openShare -= s.openShare
	s.openShare = 0
	if s.open && s.among.work > 0 {
		s.openShare = s.among.share
	}
	if g.openShare += s.openShare; g.openShare < 1e-9 {
		g.openShare = 0
	}
}
