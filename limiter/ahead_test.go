package limiter

import (
	"math"
	"testing"
	"time"
)

// clockTo has so much be served that it is the turn of that rank.
func (w *world) clockTo(rank float64) {
	for w.gate.home.clock.systemVirtualTime < rank {
		w.gate.home.clock.serve(0.1)
	}
}

// TestStrangersMakeRoomWhateverIsLonger: a stranger's page waits for that of somebody
// known which is longer and whose turn is before it, as that waits for its own size;
// what computes that is longer still does not matter.
func TestStrangersMakeRoomWhateverIsLonger(t *testing.T) {
	w := siegeOf("long", "ahead", "b", "a")
	w.Arrive(w.now, Arrival{Client: host("b"), Guess: time.Second, Idle: time.Minute, Sure: true}) // else all are even again
	w.expectOn(t, "a longer one", w.of("long", sizes[5]), computing, 5)
	w.outrun("ahead")
	hogs := []*Ticket{w.of("ahead", sizes[4]), w.of("ahead", sizes[4])}
	w.expectRun(t, "those of its size", hogs, 2)
	a := w.of("a", sizes[4])
	w.expectPhase(t, "who is within its share", a, queued)
	early := w.of("stranger", sizes[3])
	w.expectPhase(t, "a stranger whose turn is before that", early, computing)
	w.done(early, sizes[3])

	w.clockTo(a.rank - 1)
	late := w.of("another stranger", sizes[3])
	w.expectPhase(t, "a stranger whose turn is after it", late, queued)
	for _, x := range hogs {
		w.done(x, sizes[4])
	}
	w.expectPhase(t, "who waited", a, computing)
	w.expectPhase(t, "the stranger, then", late, computing)
}

// TestLightOnesMakeRoomWhateverIsLonger: the light ones of those who are ahead of their
// share wait for a longer one whose turn has come and that waits for light ones; what
// computes that is longer still does not matter.
func TestLightOnesMakeRoomWhateverIsLonger(t *testing.T) {
	w := siegeOf("long", "x", "y", "z", "a")
	w.expectOn(t, "a longer one", w.of("long", sizes[5]), computing, 5)
	lights := []*Ticket{w.light("x"), w.light("y")}
	w.expectRun(t, "light ones", lights, 2)
	a := w.of("a", sizes[4])
	w.expectPhase(t, "it waits for them", a, queued)
	w.outrun("z")
	third := w.light("z")
	w.expectPhase(t, "one more light one, before its turn", third, computing)
	w.done(third, 0)

	w.clockTo(a.rank)
	w.outrun("z")
	third = w.light("z")
	w.expectPhase(t, "one more, as its turn has come", third, queued)
	for _, x := range lights {
		w.done(x, 0)
	}
	w.expectPhase(t, "who waited", a, computing)
	w.expectPhase(t, "the light one, then", third, computing)
}

// TestWhatOtherSitesUsedIsTheirs: a long one of who is ahead of its share may go where all used much, if its own site
// has left a CPU of what is guaranteed to it.
func TestWhatOtherSitesUsedIsTheirs(t *testing.T) {
	for name, x := range map[string]struct {
		used  float64 // CPUs that those within their share at its site lately used, of one that is guaranteed to it
		there int     // long ones at its site whose clients are ahead
		more  int     // room for more than there are CPUs
		alone bool    // no sites are told apart
		want  bool
	}{
		"nothing":                  {used: 0, want: true},
		"half of one is rounded":   {used: 0.5, want: true},
		"more than that":           {used: 0.6},
		"one is there":             {there: 1},
		"one, and there is room":   {there: 1, more: 1, used: 0.5, want: true},
		"two, and room for one":    {there: 2, more: 1},
		"there are no other sites": {alone: true},
	} {
		g := shaped()
		g.limits.n += x.more
		g.divided, g.present = !x.alone, []*site{&g.home, {among: flow{share: 1}}}
		g.home.among.share, g.home.longAhead = 1, x.there
		g.within, g.home.within = use{sum: 90}, use{sum: x.used * usedFor}
		g.load.computing[3], g.home.clock.systemVirtualTime = 2, 10
		r := &Ticket{queueEntry: queueEntry{level: 3, ahead: true, site: &g.home, flow: &flow{share: 0.5, virtualTime: 14}}}
		if got := g.leaves(0, r); got != x.want {
			t.Errorf("%s: it goes: %t", name, got)
		}
	}
}

// TestWhatNobodyKnowsWaitsOnItsRung: it wants the room of that of 1.6 s, and counts for no other one.
func TestWhatNobodyKnowsWaitsOnItsRung(t *testing.T) {
	g := shaped()
	s := &g.home
	x := &Ticket{n: 0, queueEntry: queueEntry{level: fresh, rank: 7, site: s, client: new(client)}}
	s.queues[fresh].within.push(x)
	for r := range rung(rungs) {
		want := math.Inf(1)
		if r == unknownRung {
			want = x.rank
		}
		if s.wantsRung(r) != (r == unknownRung) || g.firstOn(0, s, r).known != want {
			t.Errorf("rung %d: wanted %t, from rank %g", r, s.wantsRung(r), g.firstOn(0, s, r).known)
		}
	}
}

// TestStrangersMakeRoomForWhoIsWithin, and not for who is ahead: while one within its share computes, what waits between it and a longer
// one does not have strangers make room for that, if it is ahead of its own.
func TestStrangersMakeRoomForWhoIsWithin(t *testing.T) {
	for ahead, want := range map[bool]bool{true: false, false: true} {
		g := shaped()
		s := &g.home
		s.clock.active = 2
		of := func(l level, ahead bool) *Ticket {
			return &Ticket{queueEntry: queueEntry{level: l, rank: 9, ahead: ahead, site: s, flow: &flow{share: 1}}}
		}
		s.queues[5].within.push(of(5, false))
		g.load.computing[4] = 1
		if x := of(3, ahead); ahead {
			s.queues[3].ahead.push(x)
		} else {
			s.queues[3].within.push(x)
		}
		if got := g.above(0, s)[2].known; got != want {
			t.Errorf("one waits that is ahead %t: strangers make room: %t", ahead, got)
		}
	}
}

// TestWhoStarvesLongest holds up the others, on whichever rung it waits.
func TestWhoStarvesLongest(t *testing.T) {
	const now = 1000.0
	for _, ranks := range [][2]float64{{900, 800}, {800, 900}, {800, 800}} {
		g := shaped()
		s := &g.home
		s.clock = clock{systemVirtualTime: now, active: 2}
		for i, l := range []level{5, 3} {
			s.queues[l].within.push(&Ticket{queueEntry: queueEntry{level: l, rank: ranks[i], site: s, flow: &flow{share: 1}}})
		}
		if all := g.above(0, s); all[5].first != ranks[0] || all[4].first != ranks[0] || all[3].first != 800 || all[0].first != 800 {
			t.Errorf("ranks of %v starve: %+v", ranks, all)
		}
	}
}

// TestLightOnesCountWithoutAWorker: the turn of a light one comes though it waits for a worker; that of a longer one
// only once there is one.
func TestLightOnesCountWithoutAWorker(t *testing.T) {
	const now = 1000.0
	for l, want := range map[level]bool{level(lightRung): true, level(lightRung + 1): false} {
		g := shaped()
		s := &g.home
		s.clock = clock{systemVirtualTime: now, active: 2}
		g.workers.said, g.busy, g.load.held[0] = 16, 16, 16
		s.queues[l].within.push(&Ticket{queueEntry: queueEntry{level: l, rank: now, site: s, flow: &flow{share: 1}}})
		if all := g.above(0, s); all[0].overdue != want {
			t.Errorf("one of level %d waits for a worker, and is overdue: %t", l, all[0].overdue)
		}
	}
}
