package limiter

import (
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
	// openShare is what it is counted with in that of the open sites that want something.
	openShare float64

	queues    [levels]levelQueue
	parked    headHeap // those whose keys hold too many workers
	strangers strangers
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

	present bool          // it is in the gate's list of those
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
	// siteBeyond is by how much more than is guaranteed to it a site uses that is told to be
	// ahead: two that both take all they get are not to change places.
	siteBeyond = 1.2
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
	turns      turns   // the same while they are looked at in the order of their turns
	present    []*site // those of whom there were requests lately
	divided    bool    // there are named ones
	openShare  float64 // the shares of those that delay nobody and want something, summed up
	delays     bool    // some delay
}

// setSites takes in the sites of a policy. One that is gone goes on as it was until its
// requests have gone.
func (g *gate) setSites(p *policy) {
	named := make(map[string]*site, len(p.Sites))
	g.delays = false
	for _, info := range p.Sites {
		s := g.named[info.Name]
		if i := slices.IndexFunc(g.contending, func(o *site) bool { return o.name == info.Name }); s == nil && i >= 0 {
			s = g.contending[i] // it had gone, and some of its requests wait still
		}
		if s == nil {
			s = &site{name: info.Name}
		}
		named[info.Name] = s
		g.setSite(p, s, info)
		g.delays = g.delays || !s.open
	}
	g.named, g.divided = named, len(named) > 0
	g.setSite(p, &g.home, SiteInfo{Share: p.OtherSites, Mode: p.Mode})
	g.delays = g.delays || !g.home.open
	for _, s := range g.contending {
		if s != &g.home && named[s.name] != s {
			s.open = g.home.open
			g.weighOpen(s)
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
	g.weighOpen(s)
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

// hasNeighbours tells whether there was a request lately of another site, to which workers
// can be left: those of a site that delays nobody take what they like.
func (g *gate) hasNeighbours(s *site) bool {
	return slices.ContainsFunc(g.present, func(o *site) bool { return o != s && (s.open || !o.open) })
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

// hasOfItsShare tells whether a site lately used clearly more than is guaranteed to it, or less.
func (g *gate) hasOfItsShare(at time.Duration, s *site) (more, less bool) {
	if !g.divided {
		return false, false
	}
	used, own := s.used.rate(at), g.guaranteed(s)
	return used > siteBeyond*own, used < own && g.hasNeighbours(s)
}

// holdsTooMany tells whether a site holds so many workers that it leaves none for a while to
// another one that is there.
func (g *gate) holdsTooMany(s *site, v *view, least int) bool {
	return s.long >= g.mostOf(v, least) && g.hasNeighbours(s)
}

// mostOf is how many workers a site may hold with requests that are not short while there is
// another one.
func (g *gate) mostOf(v *view, least int) int {
	return max(int(siteHolds*float64(v.longest(&g.limits))), least)
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
