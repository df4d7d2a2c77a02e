package limiter

import (
	"math"
	"time"
)

// part is the part of the machine that is the site's while all want theirs who have requests.
func (g *gate) part(s *site) float64 {
	return min(1, s.among.share/max(g.clock.active, s.among.share))
}

// machine is how far the sites' clock goes in so many seconds of the whole machine.
func (g *gate) machine(seconds float64) float64 {
	return seconds * g.ranking.cpus / max(g.clock.active, 1e-9)
}

// tag is the site's start tag: where its next request begins on the sites' clock.
func (g *gate) tag(s *site) float64 {
	return max(s.among.virtualTime, g.clock.systemVirtualTime-g.machine(siteLag))
}

// takeTurn charges a request that begins to its site, and moves the clock on to the least
// tag of the sites that want something.
func (g *gate) takeTurn(t *Ticket) {
	if !g.divided {
		return
	}
	least := math.Inf(1)
	for _, s := range g.contending {
		least = min(least, g.tag(s))
	}
	t.site.among.virtualTime = g.tag(t.site)
	if least > g.clock.systemVirtualTime && !math.IsInf(least, 1) {
		g.clock.systemVirtualTime = least
	}
	t.siteCharge = siteCharge{}
	g.chargeSite(t, min(t.guess, siteAtOnce))
}

// siteCharge is what a request's site was charged with for it.
type siteCharge struct {
	paid    float64 // CPU-seconds
	applied float64 // how far it moved the site's virtual time
}

// chargeSite makes x CPU-seconds of what the site was charged with, if that was less.
func (g *gate) chargeSite(t *Ticket, x float64) {
	c, f := &t.siteCharge, &t.site.among
	if !g.divided || x <= c.paid {
		return
	}
	from := f.virtualTime // it may be behind the clock: its turn is due then
	f.virtualTime = max(from, min(from+(x-c.paid)/f.share, g.clock.systemVirtualTime+g.machine(siteLead)))
	g.clock.ahead = max(g.clock.ahead, f.virtualTime)
	c.applied, c.paid = c.applied+f.virtualTime-from, x
}

// settleSite makes x CPU-seconds of it in the end. No more is given back than was really taken.
func (g *gate) settleSite(at time.Duration, t *Ticket, x float64) {
	s := t.site
	s.settled += x
	s.ended++
	g.clock.serve(x)
	if !g.divided {
		return
	}
	g.chargeSite(t, x)
	if c := &t.siteCharge; x < c.paid {
		s.among.virtualTime -= c.applied * (1 - x/c.paid)
	}
	s.used.add(at, x)
	if t.rung <= lightRung {
		s.light.add(at, x)
	}
}

// undoSite gives all of it back.
func (g *gate) undoSite(t *Ticket) {
	t.site.among.virtualTime -= t.siteCharge.applied
	t.siteCharge = siteCharge{}
}
