package limiter

import (
	"math"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// siteAt returns a site of a gate for two CPUs whose sites' clock is at 100. The sites with work have shares
// of 2 in total.
func siteAt(virtualTime, share float64) (*gate, *Ticket) {
	g := newGate(nil)
	g.divided, g.ranking.cpus = true, 2
	g.clock = clock{systemVirtualTime: 100, active: 2}
	s := &site{among: flow{virtualTime: virtualTime, share: share}}
	return g, &Ticket{queueEntry: queueEntry{site: s}}
}

// TestPartOfASite: a site's part of the machine depends on the shares of the sites with work. It is the whole
// machine if no other site has work.
func TestPartOfASite(t *testing.T) {
	for share, want := range map[float64]float64{1: 1, 2: 2, 0.5: 0.5, 5: 2} {
		if g, x := siteAt(0, share); g.part(x.site) != want {
			t.Errorf("a share of %g gives %g CPUs, want %g", share, g.part(x.site), want)
		}
	}
	g, x := siteAt(0, 1)
	if g.clock.active = 0; g.part(x.site) != 2 {
		t.Errorf("while no site has work, the site's part is %g", g.part(x.site))
	}
}

// TestUsedShareOfASite: a site may use clearly more than its part, if other sites leave some unused, or less.
func TestUsedShareOfASite(t *testing.T) {
	for name, c := range map[string]struct {
		used       float64 // CPU-seconds used in the last ten seconds; the site's part is ten
		alone, ten bool    // no other site has work; ten seconds have passed since then
		more, less bool
	}{
		"clearly more":           {used: 12.1, more: true},
		"a fifth more":           {used: 12},
		"about as much":          {used: 11.9},
		"just as much":           {used: 10},
		"less":                   {used: 9.9, less: true},
		"more, a while ago":      {used: 15, ten: true, less: true},
		"no other site had work": {used: 20, alone: true},
		"nothing":                {alone: true},
	} {
		g, x := siteAt(0, 1)
		if c.alone {
			g.clock.active = 1
		}
		at := time.Duration(0)
		if x.site.used.add(at, c.used); c.ten {
			at = 10 * time.Second
		}
		if more, less := g.hasOfItsShare(at, x.site); more != c.more || less != c.less {
			t.Errorf("%s: more %t, less %t", name, more, less)
		}
		g.divided = false
		if more, less := g.hasOfItsShare(at, x.site); more || less {
			t.Errorf("%s: there are no sites", name)
		}
	}
}

// TestIdleSitesSaveNothing: a site behind the clock moves up to the clock if it has no waiting requests. A site
// with waiting requests stays behind.
func TestIdleSitesSaveNothing(t *testing.T) {
	for _, x := range []struct {
		queued     int
		at, begins float64
	}{{0, 97, 100}, {0, 103, 103}, {1, 97, 97}} {
		g, r := siteAt(x.at, 1)
		r.site.queued = x.queued
		if g.reach(r.site); r.site.among.virtualTime != x.begins {
			t.Errorf("%d wait: a site at %g begins at %g, want %g", x.queued, x.at, r.site.among.virtualTime, x.begins)
		}
	}
}

// TestChargesOfSites: in the end, a site is charged a request's cost, whatever it was charged before. Its lead
// is limited, and no more is given back than was charged.
func TestChargesOfSites(t *testing.T) {
	for name, x := range map[string]struct {
		at, first, then, settled float64
		want                     float64 // the site's virtual time
	}{
		"costs what was guessed":        {100, 0.3, 0.3, 0.3, 100.6},
		"less":                          {100, 0.3, 0.3, 0.1, 100.2},
		"nothing":                       {100, 0.3, 0.3, 0, 100},
		"more as it ran":                {100, 0.3, 1, 1, 102},
		"more in the end":               {100, 0.3, 0.3, 1, 102},
		"less as it ran":                {100, 0.3, 0.1, 0.3, 100.6},
		"up to the limit":               {100, 9, 10, 10, 120},
		"beyond the limit":              {100, 9, 11, 11, 120},
		"half of the charge given back": {100, 9, 12, 6, 110},
		"already beyond the limit":      {130, 1, 2, 2, 130},
		"behind the clock":              {98, 1, 1, 1, 100},
	} {
		g, r := siteAt(x.at, 0.5)
		g.chargeSite(r, x.first)
		g.chargeSite(r, x.then)
		if g.settleSite(time.Second, r, x.settled); math.Abs(r.site.among.virtualTime-x.want) > 1e-9 {
			t.Errorf("%s: the site is at %g, want %g", name, r.site.among.virtualTime, x.want)
		}
		if r.site.settled != x.settled || r.site.ended != 1 || r.site.used.sum != x.settled || g.clock.systemVirtualTime != 100+x.settled/2 {
			t.Errorf("%s: %+v; the clock is at %g", name, r.site, g.clock.systemVirtualTime)
		}
		g, r = siteAt(x.at, 0.5)
		g.chargeSite(r, x.first)
		g.chargeSite(r, x.then)
		if g.undoSite(r); math.Abs(r.site.among.virtualTime-x.at) > 1e-9 || r.siteCharge != (siteCharge{}) {
			t.Errorf("%s: after the charge was given back, the site is at %g", name, r.site.among.virtualTime)
		}
	}
	g, r := siteAt(100, 1)
	g.divided = false
	if g.settleSite(0, r, 1); r.site.among.virtualTime != 100 || r.site.settled != 1 || r.site.used.sum != 0 {
		t.Errorf("without named sites: %+v", r.site)
	}
}

// TestTurnsOfSites: the site with the lowest tag goes first, and among equal tags the one with the first name.
func TestTurnsOfSites(t *testing.T) {
	for name, x := range map[string]struct {
		a, b float64 // their tags
		want string
	}{
		"a is first": {100, 101, "ab"},
		"b is first": {101, 100, "ba"},
		"even":       {100, 100, "ab"},
	} {
		g, _ := siteAt(0, 1)
		a := &site{name: "a", among: flow{virtualTime: x.a, share: 1}}
		b := &site{name: "b", among: flow{virtualTime: x.b, share: 1}}
		for _, g.contending = range [][]*site{{b, a}, {a, b}} {
			got := ""
			for _, s := range g.inTurn() {
				got += s.name
			}
			testkit.Same(t, x.want, got, "%s: their order", name)
		}
	}
	g, _ := siteAt(0, 1)
	slow, fast := &site{name: "slow", queued: 3, among: flow{share: 1}}, &site{name: "fast", queued: 5, among: flow{share: 2}}
	for _, g.contending = range [][]*site{{slow, fast}, {fast, slow}} {
		if g.fattest() != slow {
			t.Error("five requests of a site with two shares count as more than three of a site with one")
		}
	}
}
