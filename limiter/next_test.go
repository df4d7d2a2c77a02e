package limiter

import (
	"math"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter/account"
)

// head makes a request of a client within its share compete for the ladder.
func (g *gate) head(l level) *Ticket {
	g.seq++
	x := &Ticket{request: request{sure: l != fresh}, queueEntry: queueEntry{
		level: l, site: &g.home, client: new(client), flow: &flow{share: 1}, phase: queued, order: g.seq, rank: float64(g.seq),
	}}
	g.home.queues[l].underShare.push(x)
	if g.home.queued++; g.home.queued == 1 {
		g.contending = append(g.contending, &g.home)
	}
	return x
}

// TestALongerOneGoesWhereLightOnesMayNot: while light requests aren't trusted, requests of up to 400 ms have
// extra room next to long ones, and light requests don't.
func TestALongerOneGoesWhereLightOnesMayNot(t *testing.T) {
	g := shaped()
	g.home.clock.active, g.utilisation, g.trustAgain = 1, 1, time.Second
	g.load.computing[0], g.load.computing[rungs-1] = 2, 1
	g.head(0)
	x := g.head(level(passRung))
	if got := g.leastOf(0, &g.home); got != x {
		t.Errorf("%+v goes", got)
	}
}

// TestTinyRequestsShareRoom: while all requests that wait for a CPU are tiny, 25 tiny ones take the room of
// one.
func TestTinyRequestsShareRoom(t *testing.T) {
	for _, c := range []struct {
		name            string
		computing, tiny int
		guess           float64
		longer          level // where another request waits; 0: none does
		other           bool  // whether a request that isn't tiny waits among those of clients over their share
		starts          bool
	}{
		{name: "two others compute", computing: 2, guess: 0.0005},
		{name: "two tiny ones compute", computing: 2, tiny: 2, guess: 0.0005, starts: true},
		{name: "49 tiny ones compute", computing: 49, tiny: 49, guess: 0.0005, starts: true},
		{name: "50 tiny ones compute", computing: 50, tiny: 50, guess: 0.0005},
		{name: "24 tiny ones and another compute", computing: 25, tiny: 24, guess: 0.0005, starts: true},
		{name: "25 tiny ones and another compute", computing: 26, tiny: 25, guess: 0.0005},
		{name: "the request isn't tiny", computing: 2, tiny: 2, guess: 0.0011},
		{name: "a longer one waits", computing: 2, tiny: 2, guess: 0.0005, longer: 1},
		{name: "a request of an unknown kind waits", computing: 2, tiny: 2, guess: 0.0005, longer: fresh},
		{name: "a request that isn't tiny waits", computing: 2, tiny: 2, guess: 0.0005, other: true},
	} {
		g := shaped()
		g.home.clock.active, g.utilisation = 1, 1
		g.load.computing[0], g.load.tiny = c.computing, c.tiny
		g.head(0).guess = c.guess
		if c.longer > 0 {
			g.head(c.longer)
		}
		if c.other {
			x := g.head(0)
			g.home.queues[0].underShare.remove(x)
			g.home.queues[0].overShare.push(x)
			x.guess = 0.02
		}
		testkit.Same(t, c.starts, g.leastOf(0, &g.home) != nil, "%s: starts", c.name)
	}
}

// TestARunningRequestIsNoLongerTiny: a request that has taken more than 1 ms isn't tiny any more, and counts in
// full.
func TestARunningRequestIsNoLongerTiny(t *testing.T) {
	g := shaped()
	x := g.head(0)
	x.guess = 0.0005
	x.phase = outside
	g.countIn(x, computing, 0)
	testkit.Same(t, 1, g.load.tiny, "tiny at the start")
	x.charged = 0.002
	g.move(x, computing, 0)
	testkit.Same(t, 0, g.load.tiny, "tiny after 2 ms")
	testkit.Same(t, 1, g.load.computing[0], "computing")
}

// TestPassingADoor: clients within their share may start requests unless a door is closed. Strangers and
// clients over their share may start requests only if it is open.
func TestPassingADoor(t *testing.T) {
	for door, want := range map[access][3]bool{
		closed: {}, toUnderShare: {true}, open: {true, true, true},
	} {
		for who, heap := range []func(*levelQueue) *headHeap{
			func(q *levelQueue) *headHeap { return &q.underShare },
			func(q *levelQueue) *headHeap { return &q.overShare },
			func(q *levelQueue) *headHeap { return &q.strange },
		} {
			g := shaped()
			g.home.strangers.share = 1
			q := &g.home.queues[0]
			heap(q).push(&Ticket{queueEntry: queueEntry{site: &g.home, client: new(client)}})
			c := candidate{rank: math.Inf(1)}
			if c.look(g, &g.home, q, doors{door, door}); (c.first() != nil) != want[who] {
				t.Errorf("door %d: a request of heap %d starts: %t", door, who, !want[who])
			}
		}
	}
}

// TestRoomToTry: requests of unknown cost run as probes one at a time, while there is a worker.
func TestRoomToTry(t *testing.T) {
	for name, x := range map[string]struct {
		set  func(*gate)
		want bool
	}{
		"no request is running":       {func(*gate) {}, true},
		"a probe is running":          {func(g *gate) { g.load.probing = 1 }, false},
		"there is no worker":          {func(g *gate) { g.busy, g.load.held[0] = 16, 16 }, false},
		"thirteen are not short":      {func(g *gate) { g.load.held[5] = 13 }, true},
		"two are left for short ones": {func(g *gate) { g.load.held[5] = 14 }, false},
	} {
		g := shaped()
		g.head(fresh)
		if x.set(g); g.mayProbe(&g.home) != x.want {
			t.Errorf("%s: there is room: %t", name, !x.want)
		}
	}
	if g := shaped(); g.mayProbe(&g.home) {
		t.Error("there is room although no request waits")
	}
}

// TestNoProbeWithoutAWorker: if a request's keys hold too many workers, it is parked, and the next becomes a
// probe.
func TestNoProbeWithoutAWorker(t *testing.T) {
	g := shaped()
	first, second := g.head(fresh), g.head(fresh)
	first.n, first.reservations[0] = 1, reservation{Bucket: &bucket{Value: keyAtGate{holds: 8}}, Terms: &account.Terms{Workers: 0.5}}
	if got := g.toProbeOf(0, &g.home); got != second || first.heap != &g.home.parked {
		t.Errorf("%+v is a probe", got)
	}
	g.home.queues[fresh].underShare.remove(second)
	if got := g.toProbeOf(0, &g.home); got != nil {
		t.Errorf("%+v is a probe, although no other request waits", got)
	}
}
