package limiter

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// A backend may have several sites. Then fair queueing has a level above the clients: each
// site has its share, its own clock, and within it the order of its clients, strangers and
// robots, as if it were alone; and the sites take turns. That is hierarchical fair queueing
// (Bennett and Zhang, SIGCOMM 1996); among the sites it is by start tags (Goyal, Vin and
// Cheng, SIGCOMM 1996), for as many requests at a time as there is room for (SFQ(D): Jin,
// Chase and Kaur, SIGMETRICS 2004). A site's start tag is its flow's virtual time. The clock
// of the sites is at the least tag of those who want something, so that who takes what nobody
// else wants is not ahead afterwards, and who was idle has saved nothing.
//
// The room on the ladder, and the workers, are one for all sites.

// SiteInfo is one of the sites of a backend.
type SiteInfo struct {
	Name string // not empty
	// Share is what it has against the others: with 1, 2 and 5 they have an eighth, a quarter
	// and five eighths, if they all want it; 0 is 1.
	Share float64
	// Mode is the policy's, or Observe; or Fair, if the policy's is Observe.
	Mode Mode
	// Shadow judges and counts its requests, and delays none.
	Shadow bool
}

// site is what the gate knows of a site. The gate's lock guards it.
type site struct {
	name  string
	among flow  // whose virtual time is the site's start tag among the sites
	clock clock // of the site's own flows
	open  bool  // none of its requests waits

	queues    [levels]levelQueue
	parked    headHeap // those whose keys hold too many workers
	strangers strangers
	pool      pool
	misjudged misjudged

	within       use     // of those within their share
	used         use     // of all
	light        use     // of light requests
	long         int     // requests at the backend that are not short
	turn         float64 // on the sites' clock: its tag, or somewhat before
	longAhead    int     // of those that compute, those that are long and whose clients are ahead
	strangerLong int     // of long, strangers'
	busy         int     // requests at the backend
	queued       int     // requests that wait

	present bool          // it is in the list of those
	latest  time.Duration // when a request came

	settled float64       // CPU-seconds of all its requests so far
	waited  time.Duration // of all its requests so far
	ended   uint64        // how many of them ran
	refused uint64        // at the gate
}

// Of sites. Facts found by simulation, not for anybody to set.
const (
	// siteSlack is for how many seconds of the machine a site may be ahead of another one
	// that wants its turn, and has no room for it, until it leaves room.
	siteSlack = 0.2
	// siteEarly is by how many seconds of the machine a site goes before its turn that lately
	// had less than its share.
	siteEarly = 1.0
	// siteLead is the most that a site is held to be ahead, in seconds of the machine.
	siteLead = 20.0
	// siteLag is the most that a site is held to be behind that could not take its turn.
	siteLag = 5.0
	// siteAtOnce is the most that a request is charged with to its site as it starts, in
	// CPU-seconds. More is charged as it runs.
	siteAtOnce = 0.4
	// nearlyAll is the part of its share that a site may use, and that its light requests may
	// use whatever it used beside them, without leaving room to others.
	nearlyAll = 0.9
	// siteHolds is the part of the workers not kept for short requests that one site may
	// hold while there is another one.
	siteHolds = 0.75
	// siteThere is for how long a site is there after a request of its.
	siteThere = time.Minute
)

// sites are the sites of a gate.
type sites struct {
	clock      clock
	home       site    // of all that is no named site's
	contending []*site // those with requests that wait
	present    []*site // those of whom there were requests lately
	divided    bool    // there are named ones
}

// setSites takes in the sites of a policy. One that is gone goes on as it was until its
// requests have gone.
func (g *gate) setSites(p *policy) {
	named := make(map[string]*site, len(p.Sites))
	for _, info := range p.Sites {
		s := g.named[info.Name]
		if s == nil {
			s = &site{name: info.Name}
		}
		named[info.Name] = s
		g.setSite(p, s, info)
	}
	g.named, g.divided = named, len(named) > 0
	g.setSite(p, &g.home, SiteInfo{Share: p.OtherSites, Mode: p.Mode})
	for _, s := range g.contending {
		if s != &g.home && named[s.name] != s {
			s.open = g.home.open
		}
	}
	for _, s := range g.present {
		s.present = false
	}
	g.present = g.present[:0]
}

func (g *gate) setSite(p *policy, s *site, info SiteInfo) {
	share := info.Share
	if share <= 0 {
		share = 1
	}
	s.among.reweigh(&g.clock, share)
	s.open = info.Mode != Fair || p.Shadow || info.Shadow
	s.strangers.base = p.Gate.Strangers
}

// siteOf is the one of a name, or that of all that has none.
func (g *gate) siteOf(name string) *site {
	if name == "" {
		return &g.home
	}
	if s := g.named[name]; s != nil {
		return s
	}
	return &g.home
}

// reach notes that a request of a site comes. Who wants nothing so far has saved nothing.
func (g *gate) reach(at time.Duration, s *site) {
	if s.latest = at; g.divided && !s.present {
		s.present, g.present = true, append(g.present, s)
	}
	if s.queued == 0 {
		s.among.virtualTime = max(s.among.virtualTime, g.clock.systemVirtualTime)
	}
}

// hasNeighbours tells whether there was a request of another site lately.
func (g *gate) hasNeighbours(s *site) bool {
	return len(g.present) > 1 || len(g.present) == 1 && g.present[0] != s
}

// forget takes those for absent of whom there was no request for a while.
func (g *gate) forget(at time.Duration) {
	g.present = slices.DeleteFunc(g.present, func(s *site) bool {
		s.present = s.busy+s.queued > 0 || at-s.latest < siteThere
		return !s.present
	})
}

// guaranteed is how many CPUs are the site's if all want theirs that were there lately.
func (g *gate) guaranteed(s *site) float64 {
	all := 0.0
	for _, o := range g.present {
		all += o.among.share
	}
	return g.ranking.cpus * min(1, s.among.share/max(all, s.among.share))
}

// holdsTooMany tells whether a site holds so many workers that it leaves none for a while to
// another one that is there.
func (g *gate) holdsTooMany(s *site, least int) bool {
	return g.hasNeighbours(s) && s.long >= g.mostOf(least)
}

// mostOf is how many workers a site may hold with requests that are not short while there is
// another one.
func (g *gate) mostOf(least int) int { return max(int(siteHolds*float64(g.limits.longest())), least) }

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

// inTurn are the sites with requests that wait, in the order of their turns. One that lately
// had less than its share goes somewhat before its turn: its people come in no steady flow.
func (g *gate) inTurn(at time.Duration) []*site {
	if len(g.contending) < 2 {
		return g.contending
	}
	for _, s := range g.contending {
		if s.turn = g.tag(s); s.used.rate(at) < g.part(s)*g.ranking.cpus {
			s.turn -= g.machine(siteEarly)
		}
	}
	slices.SortStableFunc(g.contending, func(a, b *site) int { return cmp.Compare(a.turn, b.turn) })
	return g.contending
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
	for _, s := range g.inTurn(at) {
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

// openRungs tells where on the ladder somebody may go.
func (g *gate) openRungs(at time.Duration) (open [rungs]bool) {
	alike, ahead := 0, 0
	for r := range open {
		alike += g.load.computing[r]
		ahead += g.load.ahead[r]
		d := g.doors(at, rung(r), alike, ahead, false)
		open[r] = d.low != closed || d.up != closed
	}
	return open
}

// wantsOne tells whether somebody waits for one of those rungs, or for a worker alone.
func (s *site) wantsOne(open *[rungs]bool) bool {
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
	return used > nearlyAll*mine && g.tag(s) > owed+g.machine(siteSlack) || used > mine && g.busy > s.busy
}

// isBehind tells whether a site leaves room to another one.
func (g *gate) isBehind(at time.Duration, s *site) bool {
	owed := math.Inf(1)
	if o := g.before(at, s); o != nil {
		owed = g.tag(o)
	}
	return g.isHeldFor(at, s, owed)
}

// before is the site whose turn is before that of another one, and that waits for room; nil:
// none is.
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
	for l := range fresh {
		q := &s.queues[l]
		if q.empty() || !g.hasWorker(l.rung(), true, 0) {
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
