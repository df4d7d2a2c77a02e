package limiter

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// A backend may have several sites. Then fair queueing has a level above the clients: each site
// has its share, its own clock, and within it the order of its clients, strangers and robots,
// as if it were alone; and the sites take turns. That is hierarchical fair queueing (Bennett
// and Zhang, SIGCOMM 1996); among the sites it is by start tags (Goyal, Vin and Cheng, SIGCOMM
// 1996), for as many requests at a time as there is room for (SFQ(D): Jin, Chase and Kaur,
// SIGMETRICS 2004). A site's start tag is its flow's virtual time. The clock of the sites is at
// the least tag of the sites with work. So a site that takes what no other wants is not ahead
// afterwards, and an idle site saves nothing.
//
// The room on the ladder, and the workers, are one for all sites.

// SiteInfo is one of the sites of a backend.
type SiteInfo struct {
	Name string // not empty
	// Share is what it has against the others: with 1, 2 and 5 they have an eighth, a quarter
	// and five eighths, if they all want it; 0 is 1.
	Share float64
}

// site is what the gate knows of a site. The gate's lock guards it.
type site struct {
	name  string
	among flow  // whose virtual time is the site's start tag among the sites
	clock clock // of the site's own flows

	queues    [levels]levelQueue
	parked    headHeap // those whose keys hold too many workers
	strangers strangers
	misjudged misjudged

	used         use // CPU of all its requests
	strangerLong int // strangers' requests at the backend that are not short
	busy         int // requests at the backend
	queued       int // requests that wait

	settled float64       // CPU-seconds of all its requests so far
	waited  time.Duration // of all its requests so far
	ended   uint64        // how many of them ran
	refused uint64        // at the gate
}

// siteBeyond is by how much more than its part a site uses that is told to be ahead: two that both take
// all they get are not to change places.
const siteBeyond = 1.2

// siteLead is the most that a site is held to be ahead, in seconds of the machine: a page that runs is not stopped, and of
// a very small share it would be held against its site for hours.
const siteLead = 20.0

// sites are the sites of a gate.
type sites struct {
	clock      clock
	home       site    // of all that is no named site's
	contending []*site // those with requests that wait
	divided    bool    // there are named ones
}

// setSites takes in the sites of a policy. One that is gone goes on as it was until its
// requests have gone.
func (g *gate) setSites(p *activePolicy) {
	named := make(map[string]*site, len(p.Sites))
	for _, info := range p.Sites {
		s := g.named[info.Name]
		if i := slices.IndexFunc(g.contending, func(o *site) bool { return o.name == info.Name }); s == nil && i >= 0 {
			s = g.contending[i] // it had gone, and some of its requests wait still
		}
		if s == nil {
			s = &site{name: info.Name}
		}
		named[info.Name] = s
		g.setSite(s, info.Share)
	}
	g.named, g.divided = named, len(named) > 0
	g.setSite(&g.home, p.OtherSites)
}

func (g *gate) setSite(s *site, share float64) {
	s.among.reweigh(&g.clock, cmp.Or(share, 1))
	s.strangers.noCredit = g.without(ruleCredit)
}

// siteOf is the one of a name, or that of all that has none.
func (g *gate) siteOf(name string) *site {
	if s := g.named[name]; s != nil {
		return s
	}
	return &g.home
}

// reach notes the arrival of a request for a site. A site that had no work has saved nothing.
func (g *gate) reach(s *site) {
	if s.queued == 0 {
		s.among.virtualTime = max(s.among.virtualTime, g.clock.systemVirtualTime)
	}
}

// part is how many CPUs are the site's while all want theirs who have requests.
func (g *gate) part(s *site) float64 {
	return g.ranking.cpus * min(1, s.among.share/max(g.clock.active, s.among.share))
}

// hasOfItsShare reports whether a site recently used clearly more than its part, or less.
func (g *gate) hasOfItsShare(at time.Duration, s *site) (more, less bool) {
	if !g.divided {
		return false, false
	}
	used, own := s.used.rate(at), g.part(s)
	return used > siteBeyond*own, used < own && g.clock.active > s.among.share
}

// contend counts a request of a site that waits, or no longer does.
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

// fattest is the site whose requests that wait are the most for its share.
func (g *gate) fattest() (s *site) {
	for _, o := range g.contending {
		if s == nil || float64(o.queued)*s.among.share > float64(s.queued)*o.among.share {
			s = o
		}
	}
	return s
}

// takeTurn charges a request that begins to its site, and moves the clock on to the least
// tag of the sites that want something.
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
	x := t.guess
	if !g.without(ruleSitesAtOnce) { // what is more is charged as it runs
		x = min(x, passRung.most())
	}
	g.chargeSite(t, x)
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
	most := g.clock.systemVirtualTime + siteLead*g.ranking.cpus/max(g.clock.active, 1e-9)
	if g.without(ruleSitesLead) {
		most = math.Inf(1)
	}
	f.virtualTime = max(from, min(from+(x-c.paid)/f.share, most))
	g.clock.furthest = max(g.clock.furthest, f.virtualTime)
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
}

// undoSite gives all of it back.
func (g *gate) undoSite(t *Ticket) {
	t.site.among.virtualTime -= t.siteCharge.applied
	t.siteCharge = siteCharge{}
}

// inTurn are the sites with requests that wait, in the order of their tags.
func (g *gate) inTurn() []*site {
	if len(g.contending) > 1 {
		slices.SortFunc(g.contending, func(a, b *site) int {
			return cmp.Or(cmp.Compare(a.among.virtualTime, b.among.virtualTime), cmp.Compare(a.name, b.name))
		})
	}
	return g.contending
}

// least is the request to go next of those that may go: that of the site whose turn it is.
// A site that has no room leaves its turn to the next one.
func (g *gate) least(at time.Duration) *Ticket {
	for _, s := range g.inTurn() {
		if t := g.leastOf(at, s, g.isHeldBack(at, s)); t != nil {
			return t
		}
	}
	return nil
}

// isHeldBack reports whether a site leaves room to the others with requests at the backend, because it
// recently had more than its part. This never applies while a CPU may be idle.
func (g *gate) isHeldBack(at time.Duration, s *site) bool {
	return g.divided && g.busy > s.busy && !g.without(ruleSitesLeave) &&
		(from(&g.load.computing, 0) >= g.limits.slots || g.without(ruleSitesIdle)) && s.used.rate(at) > g.part(s)
}

// SiteState is what is shown of a site at the gate. Totals are since the start.
type SiteState struct {
	Name    string  `json:"name" fleet:"key"` // OtherSites for what is no named site
	Share   float64 `json:"share" fleet:"max"`
	Busy    int     `json:"busy"`    // requests at the backend
	Queued  int     `json:"queued"`  // requests that wait
	CPU     float64 `json:"cpu"`     // CPU-seconds of its requests that ended
	Waited  float64 `json:"waited"`  // seconds that its requests waited, summed up
	Ended   uint64  `json:"ended"`   // requests that ran
	Refused uint64  `json:"refused"` // requests that waited in vain, for too long or as the queue was full
	// Lead is by how many CPU-seconds of its share it is ahead of the sites' clock; negative:
	// behind.
	Lead float64 `json:"lead" fleet:"max"`
}

// OtherSites is what is no named site, in statistics.
const OtherSites = "others"

// siteStates tell of all sites, by their names; none if they are not told apart.
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
