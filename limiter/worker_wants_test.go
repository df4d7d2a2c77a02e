package limiter

import (
	"testing"
	"time"
)

// TestWhoLacksAWorker: who holds one for long and waits, whose keys hold too many, who computes while a CPU is idle;
// and everybody while all are busy.
func TestWhoLacksAWorker(t *testing.T) {
	on := func(l level) func(*gate) {
		return func(g *gate) { g.home.queues[l].within.push(new(Ticket)) }
	}
	for name, x := range map[string]struct {
		waits           func(*gate) // nil: nobody does
		computing, busy int
		want            bool
	}{
		"nobody waits":                  {computing: 1, busy: 16},
		"a page, and a CPU is idle":     {waits: on(3), computing: 1, busy: 1, want: true},
		"a page, and none is":           {waits: on(3), computing: 2, busy: 2},
		"an unknown one, a CPU is idle": {waits: on(fresh), computing: 1, busy: 1, want: true},
		"a light one, a CPU is idle":    {waits: on(level(lightRung)), computing: 1, busy: 1},
		"a light one, one worker free":  {waits: on(0), computing: 2, busy: 15},
		"a light one, none free":        {waits: on(0), computing: 2, busy: 16, want: true},
		"a light one, more than all":    {waits: on(0), computing: 2, busy: 17, want: true},
		"a short poll":                  {waits: on(waitsAt(lightRung + 1)), computing: 2, busy: 2, want: true},
		"a long poll":                   {waits: on(waitsAt(rungs - 1)), computing: 2, busy: 2, want: true},
		"one whose keys hold too many":  {waits: func(g *gate) { g.home.parked.push(new(Ticket)) }, computing: 2, busy: 2, want: true},
	} {
		g := shaped()
		if x.waits != nil {
			x.waits(g)
			g.queued, g.contending = 1, []*site{{}, &g.home, {}}
		}
		g.load.computing[3], g.busy = x.computing, x.busy
		if g.lacksWorkers() != x.want {
			t.Errorf("%s: it lacks a worker: %t", name, !x.want)
		}
	}
}

// TestHowManyConnectionsWouldShowMore: a quarter more than are known, at least four and at most 256, less what is at the
// backend; none where they would show nothing, or nobody needs to know.
func TestHowManyConnectionsWouldShowMore(t *testing.T) {
	for name, x := range map[string]struct {
		n, busy, want int
		change        func(*gate)
	}{
		"somebody waits for one":   {n: 16, busy: 16, want: 4},
		"of few workers":           {n: 8, busy: 8, want: 4},
		"of many":                  {n: 40, busy: 40, want: 10},
		"of very many":             {n: 4000, busy: 4000, want: mostTried},
		"some are free":            {n: 16, busy: 13, want: 7},
		"as many are busy":         {n: 16, busy: 20, want: 0},
		"more are busy":            {n: 16, busy: 30, want: 0},
		"nobody waits":             {n: 16, busy: 16, want: 0, change: func(g *gate) { g.queued = 0 }},
		"somebody else accepts":    {n: 16, busy: 16, want: 0, change: func(g *gate) { g.workers.blind = true }},
		"more were refuted lately": {n: 16, busy: 16, want: 0, change: func(g *gate) { g.workers.refuted, g.workers.again = true, time.Hour+1 }},
		"they were a while ago":    {n: 16, busy: 16, want: 4, change: func(g *gate) { g.workers.refuted, g.workers.again = true, time.Hour }},
		"that many are configured": {n: 16, busy: 16, want: 0, change: func(g *gate) { g.workers.most = 16 }},
	} {
		l := signs()
		g := l.gate
		g.workers.n, g.busy, g.queued, g.contending = x.n, x.busy, 1, []*site{&g.home}
		g.shape()
		g.home.parked.push(new(Ticket))
		if x.change != nil {
			x.change(g)
		}
		if got := l.Wants(l.epoch.Add(time.Hour)); got != x.want {
			t.Errorf("%s: %d connections, want %d", name, got, x.want)
		}
	}
}

// TestWhoWantsACPU: whoever computes and is not short.
func TestWhoWantsACPU(t *testing.T) {
	for l := range level(levels) {
		g := shaped()
		g.home.queues[l].within.push(new(Ticket))
		g.contending = []*site{{}, &g.home}
		if want := l > level(lightRung) && l <= fresh; g.wantsCPU() != want {
			t.Errorf("one on level %d wants a CPU: %t", l, !want)
		}
	}
}

// TestAProvenWorkerIsUsed: who waits for one goes as soon as an answer begins that proves more of them.
func TestAProvenWorkerIsUsed(t *testing.T) {
	s := newShift(t, 0)
	s.polls(11, "a", "b", "c", "d")
	pages := s.pages(5, "e", "f")
	s.expectState(t, "two more than are known are tried", map[string]int{"busy": 18, "queued": 3})
	s.run(20 * time.Millisecond)
	s.Answering(s.now, pages[6])
	s.expect("one proves them", 18, "prompt answers")
	s.expectState(t, "and one more is tried", map[string]int{"busy": 19, "queued": 2})
	if s.gate.trying != 3 {
		t.Errorf("%d try whether there are more, want 3", s.gate.trying)
	}
	for _, x := range pages {
		s.done(x, 20*time.Millisecond)
	}
	if s.gate.trying != 0 {
		t.Errorf("all are answered, and %d try", s.gate.trying)
	}
}
