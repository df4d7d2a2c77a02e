package limiter

import (
	"testing"
	"time"
)

// shaped is a gate of two CPUs and sixteen workers at which nobody is.
func shaped() *gate {
	g := newGate(nil)
	g.limits.cpus, g.workers.n, g.workers.seen, g.ranking.cpus = 2, 16, true, 2
	g.busy = 1 // else nobody's part of the workers binds
	g.shape()
	return g
}

// TestDoors: a rung is open to all while fewer than two compute that are as short or shorter, and to those within
// their share while fewer of these do, where they pass; up to 400 ms there is room for half as many more as there are longer ones.
func TestDoors(t *testing.T) {
	const at = time.Hour
	for name, x := range map[string]struct {
		r            rung
		alike, ahead int
		use          float64 // of the CPUs
		longer       int     // compute on the rung of 1.6 s
		longest      int     // on that of 6.4 s
		trust        time.Duration
		want         access
	}{
		"one computes":                 {r: 3, alike: 1, use: 1, want: open},
		"two compute":                  {r: 3, alike: 2, use: 1, want: closed},
		"two light ones":               {r: lightRung, alike: 2, use: 1, want: closed},
		"one of them ahead":            {r: lightRung, alike: 2, ahead: 1, use: 1, want: toUnderShare},
		"up to 400 ms, CPUs full":      {r: passRung, alike: 2, ahead: 1, use: 1, want: closed},
		"up to 400 ms, nearly full":    {r: passRung, alike: 2, ahead: 1, use: idleBelow, want: closed},
		"up to 400 ms, CPUs idle":      {r: passRung, alike: 2, ahead: 1, use: 0.5, want: toUnderShare},
		"longer, CPUs idle":            {r: passRung + 1, alike: 2, ahead: 1, use: 0.5, want: closed},
		"two light ones beside longer": {r: lightRung, alike: 2, use: 1, longer: 1, want: open},
		"three beside longer":          {r: lightRung, alike: 3, use: 1, longer: 1, want: closed},
		"distrusted":                   {r: lightRung, alike: 2, use: 1, longer: 1, trust: at + 1, want: closed},
		"trusted again":                {r: lightRung, alike: 2, use: 1, longer: 1, trust: at, want: open},
		"400 ms beside 1.6 s":          {r: passRung, alike: 2, use: 1, longer: 1, want: closed},
		"400 ms beside 6.4 s":          {r: passRung, alike: 2, use: 1, longest: 1, want: open},
		"half as many more":            {r: passRung, alike: 3, use: 1, longest: 2, want: closed},
		"rounded up":                   {r: passRung, alike: 4, use: 1, longest: 5, want: open},
	} {
		g := shaped()
		g.utilisation, g.trustAgain = x.use, x.trust
		g.load.computing[passRung+1], g.load.computing[passRung+2] = x.longer, x.longest
		if got := g.access(at, x.r, x.alike, x.ahead); got != x.want {
			t.Errorf("%s: %d, want %d", name, got, x.want)
		}
	}
	g := shaped()
	g.utilisation = 1
	g.load.low[3], g.load.lowOverShare[3] = 1, 1
	if d := g.doors(at, 2, 1, 0); d != (doors{open, closed}) {
		t.Errorf("beside one of the next rung's lower half: %+v", d)
	}
	if d := g.doors(at, rungs-1, 1, 0); d != (doors{open, open}) {
		t.Errorf("on the last rung: %+v", d)
	}
	g.utilisation = 0.5
	if d := g.doors(at, 2, 1, 0); d != (doors{open, toUnderShare}) {
		t.Errorf("beside one of the next rung's lower half that is ahead: %+v", d)
	}
	for guess, want := range map[float64]access{0.2: open, 0.2001: closed, 0.4: closed} {
		d, r := doors{open, closed}, &Ticket{request: request{sure: true}, charge: charge{guess: guess}, queueEntry: queueEntry{level: 2}}
		if d.of(r) != want {
			t.Errorf("%g s of a rung up to 0.4 s: %d", guess, d.of(r))
		}
		if r.sure = false; d.of(r) != open {
			t.Error("what is not sure is of the upper half")
		}
		if r.sure, r.level = true, waitsAt(3); d.of(r) != open {
			t.Error("what waits is of the upper half")
		}
	}
}

// TestWhoHasAWorker: what is not short leaves some to what is, those that hardly compute leave a CPU's to those that
// wait for one, and two are always kept for what is short.
func TestWhoHasAWorker(t *testing.T) {
	wantCPU := func(g *gate) {
		s := &g.home
		g.contending = []*site{s}
		s.queues[lightRung+1].underShare.push(&Ticket{})
	}
	for name, x := range map[string]struct {
		set      func(*gate)
		r        rung
		computes bool
		want     bool
	}{
		"nobody is there":                 {func(*gate) {}, 5, false, true},
		"all are busy":                    {func(g *gate) { g.busy = 16 }, 2, true, false},
		"all but one":                     {func(g *gate) { g.busy = 15 }, 2, true, true},
		"all are busy, for a short one":   {func(g *gate) { g.busy, g.load.held[0] = 16, 16 }, 0, true, false},
		"long ones are busy, for a short": {func(g *gate) { g.busy, g.load.held[5] = 16, 15 }, 0, true, true},
		"two short ones beside long":      {func(g *gate) { g.busy, g.load.held[5] = 17, 15 }, 0, true, false},
		"that were configured":            {func(g *gate) { g.busy, g.load.held[5], g.workers.configured = 16, 15, 16 }, 0, true, false},
		"ten are held long":               {func(g *gate) { g.busy, g.load.held[5] = 10, 10 }, 5, false, true},
		"eleven":                          {func(g *gate) { g.busy, g.load.held[5] = 11, 11 }, 5, false, false},
		"twelve of its rung and longer":   {func(g *gate) { g.busy, g.load.held[5], g.load.held[4] = 12, 6, 6 }, 4, false, false},
		"fourteen that soon end":          {func(g *gate) { g.busy, g.load.held[2] = 14, 14 }, 5, false, true},
		"and for another one":             {func(g *gate) { g.busy, g.load.held[2] = 14, 14 }, 3, false, true},
		"which computes":                  {func(g *gate) { g.busy, g.load.held[2], g.load.computing[2] = 14, 14, 11 }, 3, true, false},
		"two short ones came lately":      {func(g *gate) { g.busy, g.load.held[2], g.shortUse.before = 14, 14, 2 }, 3, false, false},
		"that were one":                   {func(g *gate) { g.busy, g.load.held[2], g.shortUse.now = 14, 14, 1 }, 3, false, true},
		"eleven, for one that computes":   {func(g *gate) { g.busy, g.load.held[5] = 11, 11 }, 5, true, true},
		"thirteen":                        {func(g *gate) { g.busy, g.load.held[5] = 13, 13 }, 5, true, false},
		"while two compute":               {func(g *gate) { g.busy, g.load.held[5], g.load.computing[2] = 11, 11, 2 }, 5, true, false},
		"while one computes":              {func(g *gate) { g.busy, g.load.held[5], g.load.computing[2] = 11, 11, 1 }, 5, true, true},
		"nine hold while a CPU is wanted": {func(g *gate) { g.busy, g.load.holding = 9, 9; wantCPU(g) }, 5, false, false},
		"eight hold while one is wanted":  {func(g *gate) { g.busy, g.load.holding = 8, 8; wantCPU(g) }, 5, false, true},
		"nine, for one that computes":     {func(g *gate) { g.busy, g.load.holding = 9, 9; wantCPU(g) }, 5, true, true},
	} {
		g := shaped()
		x.set(g)
		if got := g.hasWorker(x.r, x.computes); got != x.want {
			t.Errorf("%s: rung %d has a worker: %t", name, x.r, got)
		}
	}
}

// TestLongOnesOfThoseAhead: one of a client that is ahead of its share starts only where the others left a CPU lately.
func TestLongOnesOfThoseAhead(t *testing.T) {
	for name, x := range map[string]struct {
		level  level
		within bool
		owed   bool    // its client has waited for its share
		used   float64 // CPUs that others lately used
		there  int     // long ones of clients that are ahead
		busy   int     // that compute in all
		more   int     // room for more than there are CPUs
		cpus   int     // 0: two
		want   bool
	}{
		"the others use nothing":  {level: 3, there: 1, busy: 2, want: true},
		"as many as CPUs":         {level: 3, there: 2, busy: 2, want: false},
		"the others use one":      {level: 3, used: 1, there: 0, busy: 2, want: true},
		"somewhat more":           {level: 3, used: 1.6, there: 0, busy: 2, want: false},
		"half of one is rounded":  {level: 3, used: 1.5, there: 0, busy: 2, want: true},
		"CPUs are idle":           {level: 3, used: 1.6, there: 0, busy: 1, want: true},
		"the more the less":       {level: 3, used: 1.8, there: 0, busy: 1, want: false},
		"of four CPUs, a quarter": {level: 3, cpus: 4, used: 3.7, there: 0, busy: 4, want: true},
		"of four, still less":     {level: 3, cpus: 4, used: 3.8, there: 0, busy: 4, want: false},
		"it waited for its share": {level: 3, owed: true, used: 1.6, there: 1, busy: 2, want: false},
		"it waited, and one more": {level: 3, owed: true, used: 1.5, there: 1, busy: 2, want: true},
		"one of up to 400 ms":     {level: level(passRung), used: 9, there: 9, busy: 9, want: true},
		"within its share":        {level: 3, within: true, used: 9, there: 9, busy: 9, want: true},
		"hardly computes":         {level: waitsAt(3), used: 9, there: 9, busy: 9, want: true},
		"nobody knows":            {level: fresh, used: 9, there: 9, busy: 9, want: false},
	} {
		g := shaped()
		if x.cpus > 0 {
			g.limits.cpus, g.limits.slots, g.ranking.cpus = x.cpus, x.cpus, float64(x.cpus)
			g.shape()
		}
		g.limits.slots += x.more
		g.usedUnderShare = use{sum: x.used * usedFor}
		g.load.overShare[4], g.load.computing[4] = x.there, x.busy
		g.home.clock.systemVirtualTime = 10
		r := &Ticket{queueEntry: queueEntry{level: x.level, overShare: !x.within, site: &g.home, flow: &flow{share: 0.5, virtualTime: 14}}}
		if r.applied = 2; x.owed { // without what it is charged with now, it was ahead by one CPU-second
			r.applied = 3
		}
		if got := g.leaves(0, r); got != x.want {
			t.Errorf("%s: it goes: %t", name, got)
		}
	}
}
