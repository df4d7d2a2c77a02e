package limiter

import "testing"

// waitsFor has one request wait at a site on that level.
func (s *site) waitsFor(g *gate, l level) *site {
	s.queues[l].within.push(&Ticket{sure: true, queueEntry: queueEntry{level: l, site: s, client: new(client), flow: &flow{share: 1}}})
	g.contend(s, 1)
	return s
}

// TestTheSitesClockIsThatOfTheLeastTag of those that want something, and never goes back.
func TestTheSitesClockIsThatOfTheLeastTag(t *testing.T) {
	for name, x := range map[string]struct {
		tags []float64
		want float64
	}{
		"both are ahead":      {[]float64{105, 103}, 103},
		"one is behind":       {[]float64{105, 98}, 100},
		"one is at the clock": {[]float64{100, 105}, 100},
		"nobody waits":        {nil, 100},
	} {
		g, r := siteAt(101, 1)
		for _, tag := range x.tags {
			g.contending = append(g.contending, &site{among: flow{virtualTime: tag, share: 1}})
		}
		r.guess = 3
		if g.takeTurn(r); g.clock.systemVirtualTime != x.want || r.site.among.virtualTime != 101+siteAtOnce {
			t.Errorf("%s: the clock is at %g, want %g; the site at %g", name, g.clock.systemVirtualTime, x.want, r.site.among.virtualTime)
		}
	}
}

// TestWhichSiteIsBeforeAnother: that of the least tag of those that wait for nothing but room.
func TestWhichSiteIsBeforeAnother(t *testing.T) {
	g := shaped()
	g.divided, g.clock = true, clock{systemVirtualTime: 100, active: 4}
	g.load.computing[2] = 2
	sites := map[string]*site{}
	for name, tag := range map[string]float64{"a": 101, "b": 102, "c": 103, "even with c": 103, "holds": 100} {
		sites[name] = &site{name: name, among: flow{virtualTime: tag, share: 1}, clock: clock{active: 1}}
	}
	expect := func(of, want string) {
		t.Helper()
		if got := g.before(0, sites[of]); got != sites[want] {
			t.Errorf("before %s is %+v, want %s", of, got, want)
		}
	}
	expect("c", "nobody waits")
	sites["holds"].waitsFor(g, waitsAt(3))
	expect("c", "only one that hardly computes waits")
	for _, name := range []string{"even with c", "b", "a", "c"} {
		sites[name].waitsFor(g, 2)
	}
	expect("c", "a")
	expect("b", "a")
	expect("a", "nobody else is before it")
	g.contend(sites["a"], -1)
	expect("c", "b")
	g.contend(sites["b"], -1)
	expect("c", "nobody: of even ones none is")
}

// TestWhatASiteWants: one of the rungs that are open, or a worker alone; one that delays nobody has a turn whatever is
// open.
func TestWhatASiteWants(t *testing.T) {
	open := [rungs]bool{2: true}
	for name, x := range map[string]struct {
		on   []level
		open bool
		want bool
	}{
		"nothing":                    {},
		"a rung that is open":        {on: []level{2}, want: true},
		"others":                     {on: []level{1, 3}},
		"one of them is open":        {on: []level{1, 2}, want: true},
		"a worker alone":             {on: []level{waitsAt(5)}, want: true},
		"nothing, and delays no one": {open: true, want: true},
	} {
		g, s := shaped(), &site{open: x.open}
		for _, l := range x.on {
			s.waitsFor(g, l)
		}
		if s.wantsOne(&open) != x.want {
			t.Errorf("%s: it has a turn: %t", name, !x.want)
		}
	}
}

// TestOpenRungs: those where fewer compute than may, that are as short or shorter, and those where who is within its share
// passes.
func TestOpenRungs(t *testing.T) {
	for name, x := range map[string]struct {
		computing, ahead [rungs]int
		want             [rungs]bool
	}{
		"nobody computes":       {want: [rungs]bool{true, true, true, true, true, true, true}},
		"two of 400 ms":         {computing: [rungs]int{2: 2}, want: [rungs]bool{true, true}},
		"two light ones":        {computing: [rungs]int{1: 2}, want: [rungs]bool{true}},
		"one of these is ahead": {computing: [rungs]int{1: 2}, ahead: [rungs]int{1: 1}, want: [rungs]bool{true, true}},
	} {
		g := shaped()
		g.utilisation, g.load.computing, g.load.ahead = 1, x.computing, x.ahead
		if got := g.openRungs(0); got != x.want {
			t.Errorf("%s: %v are open, want %v", name, got, x.want)
		}
	}
}
