package limiter

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// A backend may have several sites. Fair queueing then has a level above the clients. Each site has a share,
// its own clock, and its own order of clients, strangers and robots, as if it had the machine to itself. The
// sites take turns. This is hierarchical fair queueing (Bennett and Zhang, SIGCOMM 1996). The sites' turns
// follow their start tags (Goyal, Vin and Cheng, SIGCOMM 1996), in the variant that serves several requests at
// a time (SFQ(D): Jin, Chase and Kaur, SIGMETRICS 2004). A site's start tag is its flow's virtual time. The
// sites' clock follows the service given, and is at least the lowest tag of the sites with waiting requests. A
// site that uses CPU time that no other site wants therefore isn't ahead afterwards, and an idle site saves
// nothing.
//
// All sites use the same ladder and the same workers.

// SiteInfo is one of the sites of a backend.
type SiteInfo struct {
	Name string // not empty
	// Share is relative to the shares of the other sites. With shares 1, 2 and 5, the sites get an eighth, a
	// quarter and five eighths if all of them have enough requests. 0 means 1.
	Share float64
}

// site is what the gate knows about a site. The gate's lock guards it.
type site struct {
	name  string
	among flow  // its virtual time is the site's start tag
	clock clock // the clock of the site's own flows

	queues    [levels]levelQueue
	parked    headHeap // requests whose keys hold too many workers
	strangers strangers
	misjudged misjudged

	used         use        // CPU time used by all its requests
	strangerLong int        // strangers' requests at the backend that aren't short
	strangerHeld int        // those of them that may not end soon
	busy         int        // requests at the backend
	computing    [rungs]int // those of them that compute, by rung
	queued       int        // waiting requests

	settled float64       // CPU-seconds used by all its requests so far
	waited  time.Duration // total wait of its requests so far
	ended   uint64        // how many of its requests have run
	refused uint64        // how many have been refused at the gate
}

// A site is reported as ahead if it has used more than siteBeyond times its part. With a lower factor, two
// sites that both take all they can get would be reported alternately.
const siteBeyond = 1.2

// siteLead is how far a site may be ahead, in seconds of the whole machine. The page that puts it ahead may be
// long, and can't be stopped. Without this limit, a very small site would wait for hours after such a page.
const siteLead = 20.0

// sites are the sites of a gate.
type sites struct {
	clock      clock
	home       site    // the site of all requests that are for no named site
	contending []*site // sites with waiting requests
	divided    bool    // there are named sites
}

// setSites applies the sites of a policy. A removed site keeps its state until its requests have ended.
func (g *gate) setSites(p *activePolicy) {
	named := make(map[string]*site, len(p.Sites))
	for _, info := range p.Sites {
		s := g.named[info.Name]
		if i := slices.IndexFunc(g.contending, func(o *site) bool { return o.name == info.Name }); s == nil && i >= 0 {
			s = g.contending[i] // it was removed, but some of its requests still wait
		}
		if s == nil {
			s = &site{name: info.Name}
		}
		named[info.Name] = s
		s.among.reweigh(&g.clock, cmp.Or(info.Share, 1))
	}
	g.named, g.divided = named, len(named) > 0
	g.home.among.reweigh(&g.clock, cmp.Or(p.OtherSites, 1))
}

// siteOf returns the site of that name, or home if there is none.
func (g *gate) siteOf(name string) *site {
	if s := g.named[name]; s != nil {
		return s
	}
	return &g.home
}

// reach prepares a site for a new request. An idle site starts at the sites' clock, because it saves nothing.
func (g *gate) reach(s *site) {
	if s.queued == 0 {
		s.among.virtualTime = max(s.among.virtualTime, g.clock.systemVirtualTime)
	}
}

// part returns how many CPUs the site gets if all sites that have requests use their full share.
func (g *gate) part(s *site) float64 {
	return g.ranking.cpus * min(1, s.among.share/max(g.clock.active, s.among.share))
}

// hasOfItsShare reports whether a site has recently used clearly more than its part, or less.
func (g *gate) hasOfItsShare(at time.Duration, s *site) (more, less bool) {
	if !g.divided {
		return false, false
	}
	used, own := s.used.rate(at), g.part(s)
	return used > siteBeyond*own, used < own && g.clock.active > s.among.share
}

// contend adds n to the waiting requests of a site.
func (g *gate) contend(s *site, n int) {
	before := s.queued
	switch s.queued += n; {
	case before == 0:
		g.contending = append(g.contending, s)
	case s.queued == 0:
		i := slices.Index(g.contending, s)
		g.contending = slices.Delete(g.contending, i, i+1)
	}
}

// fattest returns the site with the most waiting requests relative to its share.
func (g *gate) fattest() (s *site) {
	for _, o := range g.contending {
		if s == nil || float64(o.queued)*s.among.share > float64(s.queued)*o.among.share {
			s = o
		}
	}
	return s
}

// takeTurn advances the sites' clock to the lowest virtual time of the sites with waiting requests, and then
// charges the request that starts to its site.
func (g *gate) takeTurn(t *Ticket) {
	if !g.divided {
		return
	}
	least := math.Inf(1)
	for _, s := range g.contending {
		least = min(least, s.among.virtualTime)
	}
	if least > g.clock.systemVirtualTime && !math.IsInf(least, 1) {
		g.clock.systemVirtualTime = least
	}
	t.siteCharge = siteCharge{}
	g.chargeSite(t, t.guess)
}

// siteCharge is what a site was charged for one request.
type siteCharge struct {
	paid    float64 // CPU-seconds
	applied float64 // how far the charge moved the site's virtual time
}

// chargeSite raises the site's charge for the request to x CPU-seconds, if it was less.
func (g *gate) chargeSite(t *Ticket, x float64) {
	c, f := &t.siteCharge, &t.site.among
	if !g.divided || x <= c.paid {
		return
	}
	from := f.virtualTime // may be behind the clock, which means that the site's turn is due
	most := g.clock.systemVirtualTime + siteLead*g.ranking.cpus/max(g.clock.active, 1e-9)
	f.virtualTime = max(from, min(from+(x-c.paid)/f.share, most))
	g.clock.furthest = max(g.clock.furthest, f.virtualTime)
	c.applied, c.paid = c.applied+f.virtualTime-from, x
}

// settleSite sets the site's charge for the request to the final x CPU-seconds. It gives back at most the
// virtual time that the charge had added.
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
}

// undoSite gives back the site's whole charge for the request.
func (g *gate) undoSite(t *Ticket) {
	t.site.among.virtualTime -= t.siteCharge.applied
	t.siteCharge = siteCharge{}
}

// inTurn returns the sites with waiting requests, ordered by their tags.
func (g *gate) inTurn() []*site {
	if len(g.contending) > 1 {
		slices.SortFunc(g.contending, func(a, b *site) int {
			return cmp.Or(cmp.Compare(a.among.virtualTime, b.among.virtualTime), cmp.Compare(a.name, b.name))
		})
	}
	return g.contending
}

// least returns the request to start next, from the site whose turn it is. If that site has no request that
// may start, the next site takes the turn.
func (g *gate) least(at time.Duration) *Ticket {
	for _, s := range g.inTurn() {
		if t := g.leastOf(at, s); t != nil {
			return t
		}
	}
	return nil
}

// isHeldBack reports whether a site's requests of rung r must leave room for other sites, because it has recently used
// more than its part and requests of the others compute. No site is held back while a CPU may be idle. Its own longer
// requests don't count, because otherwise a site's short pages would wait until its exports end.
func (g *gate) isHeldBack(at time.Duration, s *site, r rung) bool {
	others := from(&g.load.computing, 0) - from(&s.computing, 0)
	return g.divided && others > 0 && others+upTo(&s.computing, 0, r) >= g.limits.slots && s.used.rate(at) > g.part(s)
}

// SiteState is the state of a site, as shown by the doctor. Totals are since the start.
type SiteState struct {
	Name    string  `json:"name" fleet:"key"` // OtherSites if it counts requests that are for no named site
	Share   float64 `json:"share" fleet:"max"`
	Busy    int     `json:"busy"`    // requests at the backend
	Queued  int     `json:"queued"`  // requests that wait
	CPU     float64 `json:"cpu"`     // CPU-seconds of its requests that have ended
	Waited  float64 `json:"waited"`  // seconds that its requests waited in total
	Ended   uint64  `json:"ended"`   // requests that have run
	Refused uint64  `json:"refused"` // requests refused because they waited too long or the queue was full
	// Lead is how far the site is ahead of the sites' clock, in CPU-seconds at its share. It is negative if the
	// site is behind.
	Lead float64 `json:"lead" fleet:"max"`
}

// OtherSites names, in statistics, the entry for all requests that are for no named site.
const OtherSites = "others"

// siteStates returns the states of all sites, sorted by name. It returns nil if no sites are named.
func (g *gate) siteStates() (all []SiteState) {
	if !g.divided {
		return nil
	}
	for _, s := range g.named {
		all = append(all, g.siteState(s, s.name))
	}
	slices.SortFunc(all, func(a, b SiteState) int { return cmp.Compare(a.Name, b.Name) })
	return append(all, g.siteState(&g.home, OtherSites))
}

func (g *gate) siteState(s *site, name string) SiteState {
	x := SiteState{
		Name: name, Share: s.among.share, Busy: s.busy, Queued: s.queued,
		CPU: s.settled, Waited: s.waited.Seconds(), Ended: s.ended, Refused: s.refused,
	}
	if s.among.work > 0 {
		x.Lead = (s.among.virtualTime - g.clock.systemVirtualTime) * s.among.share
	}
	return x
}
