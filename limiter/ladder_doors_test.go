package limiter

import (
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// shaped returns a gate for two CPUs and sixteen workers, without requests.
func shaped() *gate {
	g := newGate(nil)
	g.limits.cpus, g.workers.n, g.workers.seen, g.ranking.cpus = 2, 16, true, 2
	g.busy = 1 // otherwise no limit on workers applies
	g.shape()
	return g
}

// TestDoors: a rung is open to all clients while fewer than two requests as short or shorter compute. If
// clients within their share may pass, the rung is open to them while fewer than two of these requests are
// theirs. Up to 400 ms, longer requests make more room.
func TestDoors(t *testing.T) {
	const at = time.Hour
	for name, x := range map[string]struct {
		r            rung
		alike, ahead int
		use          float64 // part of the CPUs in use
		longer       int     // requests that compute on the rung of 1.6 s
		longest      int     // requests that compute on the rung of 6.4 s
		trust        time.Duration
		want         access
	}{
		"one computes":                          {r: 3, alike: 1, use: 1, want: open},
		"two compute":                           {r: 3, alike: 2, use: 1, want: closed},
		"two light ones":                        {r: lightRung, alike: 2, use: 1, want: closed},
		"two light ones, one over its share":    {r: lightRung, alike: 2, ahead: 1, use: 1, want: toUnderShare},
		"up to 400 ms, CPUs full":               {r: passRung, alike: 2, ahead: 1, use: 1, want: closed},
		"up to 400 ms, nearly full":             {r: passRung, alike: 2, ahead: 1, use: idleBelow, want: closed},
		"up to 400 ms, CPUs idle":               {r: passRung, alike: 2, ahead: 1, use: 0.5, want: toUnderShare},
		"longer, CPUs idle":                     {r: passRung + 1, alike: 2, ahead: 1, use: 0.5, want: closed},
		"two light ones next to a longer one":   {r: lightRung, alike: 2, use: 1, longer: 1, want: open},
		"three light ones next to a longer one": {r: lightRung, alike: 3, use: 1, longer: 1, want: closed},
		"distrusted":                            {r: lightRung, alike: 2, use: 1, longer: 1, trust: at + 1, want: closed},
		"light ones are trusted again":          {r: lightRung, alike: 2, use: 1, longer: 1, trust: at, want: open},
		"400 ms next to 1.6 s":                  {r: passRung, alike: 2, use: 1, longer: 1, want: closed},
		"400 ms next to 6.4 s":                  {r: passRung, alike: 2, use: 1, longest: 1, want: open},
		"room for half as many more":            {r: passRung, alike: 3, use: 1, longest: 2, want: closed},
		"half as many, rounded up":              {r: passRung, alike: 4, use: 1, longest: 5, want: open},
	} {
		g := shaped()
		g.utilisation, g.trustAgain = x.use, x.trust
		g.load.computing[passRung+1], g.load.computing[passRung+2] = x.longer, x.longest
		testkit.Same(t, x.want, g.access(at, x.r, x.alike, x.ahead), "%s", name)
	}
	g := shaped()
	g.utilisation = 1
	g.load.low[3], g.load.lowOverShare[3] = 1, 1
	testkit.Same(t, doors{open, closed}, g.doors(at, 2, 1, 0), "next to a request in the lower half of the next rung")
	testkit.Same(t, doors{open, open}, g.doors(at, rungs-1, 1, 0), "on the last rung")
	g.utilisation = 0.5
	testkit.Same(t, doors{open, toUnderShare}, g.doors(at, 2, 1, 0), "next to a request in the lower half of the next rung, over its share")
	for guess, want := range map[float64]access{0.2: open, 0.2001: closed, 0.4: closed} {
		d, r := doors{open, closed}, &Ticket{request: request{sure: true}, charge: charge{guess: guess}, queueEntry: queueEntry{level: 2}}
		testkit.Same(t, want, d.of(r), "%g s on the rung up to 0.4 s", guess)
		if r.sure = false; d.of(r) != open {
			t.Error("a request of unknown cost counts in the upper half")
		}
		if r.sure, r.level = true, waitsAt(3); d.of(r) != open {
			t.Error("a request that waits counts in the upper half")
		}
	}
}

// TestHasWorker: requests that aren't short leave some workers to short ones: five of sixteen if they are long,
// otherwise as many as short ones used recently. Requests that hardly compute leave one worker per CPU to
// requests that wait for a CPU.
func TestHasWorker(t *testing.T) {
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
		"all are free":                                    {func(*gate) {}, 5, false, true},
		"all are busy":                                    {func(g *gate) { g.busy = 16 }, 2, true, false},
		"all but one are busy":                            {func(g *gate) { g.busy, g.load.held[2], g.shortUse.now = 15, 12, 3 }, 2, true, true},
		"one of two on two CPUs is busy":                  {func(g *gate) { g.workers.n, g.load.held[3], g.shortUse.now = 2, 1, 1; g.shape() }, 3, true, true},
		"the same, the request takes longer":              {func(g *gate) { g.workers.n, g.load.held[3], g.shortUse.now = 2, 1, 1; g.shape() }, 4, true, false},
		"short, all busy with short ones":                 {func(g *gate) { g.busy, g.load.held[0] = 16, 16 }, 0, true, false},
		"short, long ones are busy":                       {func(g *gate) { g.busy, g.load.held[5] = 16, 15 }, 0, true, true},
		"short, two short ones next to long ones":         {func(g *gate) { g.busy, g.load.held[5] = 17, 15 }, 0, true, false},
		"short, number of workers configured":             {func(g *gate) { g.busy, g.load.held[5], g.workers.configured = 16, 15, 16 }, 0, true, false},
		"ten hold for long":                               {func(g *gate) { g.busy, g.load.held[5] = 10, 10 }, 5, false, true},
		"eleven":                                          {func(g *gate) { g.busy, g.load.held[5] = 11, 11 }, 5, false, false},
		"twelve hold for as long or longer":               {func(g *gate) { g.busy, g.load.held[5], g.load.held[4] = 12, 6, 6 }, 4, false, false},
		"fourteen end soon":                               {func(g *gate) { g.busy, g.load.held[2] = 14, 14 }, 5, false, true},
		"fourteen end soon, so does the request":          {func(g *gate) { g.busy, g.load.held[2] = 14, 14 }, 3, false, true},
		"fourteen end soon, the request computes":         {func(g *gate) { g.busy, g.load.held[2], g.load.computing[2] = 14, 14, 14 }, 3, true, true},
		"the same, two short ones came recently":          {func(g *gate) { g.busy, g.load.held[2], g.shortUse.before = 14, 14, 2 }, 3, true, false},
		"fifteen end soon, the request computes":          {func(g *gate) { g.busy, g.load.held[2], g.load.computing[2] = 15, 15, 15 }, 3, true, false},
		"eleven end soon, many short ones came recently":  {func(g *gate) { g.busy, g.load.held[2], g.shortUse.now = 11, 11, 9 }, 3, false, false},
		"ten end soon, many short ones came recently":     {func(g *gate) { g.busy, g.load.held[2], g.shortUse.now = 10, 10, 9 }, 3, false, true},
		"fourteen end soon, two short ones came recently": {func(g *gate) { g.busy, g.load.held[2], g.shortUse.before = 14, 14, 2 }, 3, false, false},
		"fourteen end soon, one short one came recently":  {func(g *gate) { g.busy, g.load.held[2], g.shortUse.now = 14, 14, 1 }, 3, false, true},
		"eleven hold for long, the request computes":      {func(g *gate) { g.busy, g.load.held[5] = 11, 11 }, 5, true, true},
		"thirteen hold for long, the request computes":    {func(g *gate) { g.busy, g.load.held[5] = 13, 13 }, 5, true, false},
		"eleven hold for long, two compute already":       {func(g *gate) { g.busy, g.load.held[5], g.load.computing[2] = 11, 11, 2 }, 5, true, false},
		"eleven hold for long, one computes already":      {func(g *gate) { g.busy, g.load.held[5], g.load.computing[2] = 11, 11, 1 }, 5, true, true},
		"nine only hold, another waits for a CPU":         {func(g *gate) { g.busy, g.load.holding = 9, 9; wantCPU(g) }, 5, false, false},
		"eight only hold, another waits for a CPU":        {func(g *gate) { g.busy, g.load.holding = 8, 8; wantCPU(g) }, 5, false, true},
		"nine only hold, the request computes":            {func(g *gate) { g.busy, g.load.holding = 9, 9; wantCPU(g) }, 5, true, true},
	} {
		g := shaped()
		x.set(g)
		testkit.Same(t, x.want, g.hasWorker(x.r, x.computes), "%s: rung %d has a worker", name, x.r)
	}
}

// TestLongRequestsOverTheShare: a long request of a client over its share starts only if the other clients
// recently left a CPU free.
func TestLongRequestsOverTheShare(t *testing.T) {
	for name, x := range map[string]struct {
		level  level
		within bool
		owed   bool    // the client is within its share again
		used   float64 // CPUs that the others have recently used
		there  int     // long requests of clients over their share
		busy   int     // all requests that compute
		more   int     // room beyond the number of CPUs
		idle   bool    // CPUs are idle, as last measured
		cpus   int     // 0: two
		want   bool
	}{
		"the others use nothing":                   {level: 3, there: 1, busy: 2, want: true},
		"as many run as CPUs":                      {level: 3, there: 2, busy: 2, want: false},
		"as many run as CPUs, room for more":       {level: 3, there: 2, busy: 2, more: 1, want: false},
		"more room, and CPUs are still idle":       {level: 3, there: 2, busy: 2, more: 1, idle: true, want: true},
		"the others use one CPU":                   {level: 3, used: 1, there: 0, busy: 2, want: true},
		"the others use more than one and a half":  {level: 3, used: 1.6, there: 0, busy: 2, want: false},
		"the others use one and a half, rounded":   {level: 3, used: 1.5, there: 0, busy: 2, want: true},
		"the others use more, a CPU is idle":       {level: 3, used: 1.6, there: 0, busy: 1, want: true},
		"the others use still more, a CPU is idle": {level: 3, used: 1.8, there: 0, busy: 1, want: false},
		"a quarter is free of four CPUs":           {level: 3, cpus: 4, used: 3.7, there: 0, busy: 4, want: true},
		"less than a quarter is free of four CPUs": {level: 3, cpus: 4, used: 3.8, there: 0, busy: 4, want: false},
		"within its share again, no CPU left":      {level: 3, owed: true, used: 1.6, there: 1, busy: 2, want: false},
		"within its share again, one goes":         {level: 3, owed: true, used: 1.5, there: 1, busy: 2, want: true},
		"up to 400 ms":                             {level: level(passRung), used: 9, there: 9, busy: 9, want: true},
		"within its share":                         {level: 3, within: true, used: 9, there: 9, busy: 9, want: true},
		"hardly computes":                          {level: waitsAt(3), used: 9, there: 9, busy: 9, want: true},
		"unknown cost":                             {level: fresh, used: 9, there: 9, busy: 9, want: false},
	} {
		g := shaped()
		if x.cpus > 0 {
			g.limits.cpus, g.limits.slots, g.ranking.cpus = x.cpus, x.cpus, float64(x.cpus)
			g.shape()
		}
		if g.limits.slots += x.more; x.idle {
			g.utilisation = 0.5
		}
		g.usedUnderShare = use{sum: x.used * usedFor.Seconds()}
		g.load.overShare[3], g.load.computing[3] = x.there, x.busy
		g.home.clock.systemVirtualTime = 10
		r := &Ticket{queueEntry: queueEntry{level: x.level, overShare: !x.within, site: &g.home, flow: &flow{share: 0.5, virtualTime: 14}}}
		if r.applied = 2; x.owed { // without this request's charge, the client would be ahead by one CPU-second
			r.applied = 3
		}
		testkit.Same(t, x.want, g.leavesCPU(0, r), "%s: the request starts", name)
	}
}
