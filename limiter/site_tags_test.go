package limiter

import (
	"math"
	"testing"
	"time"
)

// siteAt is a site of a gate of two CPUs whose sites' clock is at 100. Sites with shares of 2 in all want
// something.
func siteAt(virtualTime, share float64) (*gate, *Ticket) {
	g := newGate(nil)
	g.divided, g.ranking.cpus = true, 2
	g.clock = clock{systemVirtualTime: 100, active: 2}
	s := &site{among: flow{virtualTime: virtualTime, share: share}}
	return g, &Ticket{queueEntry: queueEntry{site: s}}
}

// TestPartOfASite: what it has of the machine while all want theirs; all of it where nobody else does.
func TestPartOfASite(t *testing.T) {
	for share, want := range map[float64]float64{1: 1, 2: 2, 0.5: 0.5, 5: 2} {
		if g, x := siteAt(0, share); g.part(x.site) != want {
			t.Errorf("a share of %g is %g CPUs, want %g", share, g.part(x.site), want)
		}
	}
	g, x := siteAt(0, 1)
	if g.clock.active = 0; g.part(x.site) != 2 {
		t.Errorf("where nobody wants anything it has %g", g.part(x.site))
	}
}

// TestWhatASiteHasOfItsShare: clearly more than is guaranteed to it, which others leave to it; or less.
func TestWhatASiteHasOfItsShare(t *testing.T) {
	for name, c := range map[string]struct {
		used       float64 // CPU-seconds of the last ten, of which ten are its own
		alone, ten bool    // nobody else is there; ten seconds have passed since
		more, less bool
	}{
		"clearly more":          {used: 12.1, more: true},
		"a fifth more":          {used: 12},
		"about as much":         {used: 11.9},
		"just as much":          {used: 10},
		"less":                  {used: 9.9, less: true},
		"more, a while ago":     {used: 15, ten: true, less: true},
		"nobody else was there": {used: 20, alone: true},
		"nothing":               {alone: true},
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

// TestWhoWantedNothingHasSavedNothing: a site for which nobody waits begins at the clock, and one for which somebody does
// stays behind it.
func TestWhoWantedNothingHasSavedNothing(t *testing.T) {
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

// TestChargesOfSites: a site is charged with what a request costs, whatever it was charged with before; its lead is bounded, and no more is given back than was taken.
func TestChargesOfSites(t *testing.T) {
	for name, x := range map[string]struct {
		at, first, then, settled float64
		want                     float64 // the site's virtual time
	}{
		"as guessed":       {100, 0.3, 0.3, 0.3, 100.6},
		"less":             {100, 0.3, 0.3, 0.1, 100.2},
		"nothing":          {100, 0.3, 0.3, 0, 100},
		"more as it ran":   {100, 0.3, 1, 1, 102},
		"more in the end":  {100, 0.3, 0.3, 1, 102},
		"less as it ran":   {100, 0.3, 0.1, 0.3, 100.6},
		"up to the bound":  {100, 9, 10, 10, 120},
		"beyond it":        {100, 9, 11, 11, 120},
		"half of that":     {100, 9, 12, 6, 110},
		"beyond it before": {130, 1, 2, 2, 130},
		"behind the clock": {98, 1, 1, 1, 100},
	} {
		g, r := siteAt(x.at, 0.5)
		g.chargeSite(r, x.first)
		g.chargeSite(r, x.then)
		if g.settleSite(time.Second, r, x.settled); math.Abs(r.site.among.virtualTime-x.want) > 1e-9 {
			t.Errorf("%s: it is at %g, want %g", name, r.site.among.virtualTime, x.want)
		}
		if r.site.settled != x.settled || r.site.ended != 1 || r.site.used.sum != x.settled || g.clock.systemVirtualTime != 100+x.settled/2 {
			t.Errorf("%s: %+v; the clock is at %g", name, r.site, g.clock.systemVirtualTime)
		}
		g, r = siteAt(x.at, 0.5)
		g.chargeSite(r, x.first)
		g.chargeSite(r, x.then)
		if g.undoSite(r); math.Abs(r.site.among.virtualTime-x.at) > 1e-9 || r.siteCharge != (siteCharge{}) {
			t.Errorf("%s: given back, it is at %g", name, r.site.among.virtualTime)
		}
	}
	g, r := siteAt(100, 1)
	g.divided = false
	if g.settleSite(0, r, 1); r.site.among.virtualTime != 100 || r.site.settled != 1 || r.site.used.sum != 0 {
		t.Errorf("where no sites are told apart: %+v", r.site)
	}
}

// TestTurnsOfSites: the least tag is first, of equal ones the first name.
func TestTurnsOfSites(t *testing.T) {
	for name, x := range map[string]struct {
		a, b float64 // their tags
		want string
	}{
		"a is before": {100, 101, "ab"},
		"b is before": {101, 100, "ba"},
		"even":        {100, 100, "ab"},
	} {
		g, _ := siteAt(0, 1)
		a := &site{name: "a", among: flow{virtualTime: x.a, share: 1}}
		b := &site{name: "b", among: flow{virtualTime: x.b, share: 1}}
		for _, g.contending = range [][]*site{{b, a}, {a, b}} {
			got := ""
			for _, s := range g.inTurn() {
				got += s.name
			}
			if got != x.want {
				t.Errorf("%s: they are taken as %s, want %s", name, got, x.want)
			}
		}
	}
	g, _ := siteAt(0, 1)
	slow, fast := &site{name: "slow", queued: 3, among: flow{share: 1}}, &site{name: "fast", queued: 5, among: flow{share: 2}}
	for _, g.contending = range [][]*site{{slow, fast}, {fast, slow}} {
		if g.fattest() != slow {
			t.Error("five for two shares are more than three for one")
		}
	}
}
