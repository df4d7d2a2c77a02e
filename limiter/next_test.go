package limiter

import (
	"math"
	"testing"
	"time"

	"tempomat/limiter/account"
)

// head puts a request before the ladder that is within its share.
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

// TestALongerOneGoesWhereLightOnesMayNot: those of up to 400 ms have room beside long ones that light ones do not have
// which are not trusted.
func TestALongerOneGoesWhereLightOnesMayNot(t *testing.T) {
	g := shaped()
	g.home.clock.active, g.utilisation, g.trustAgain = 1, 1, time.Second
	g.load.computing[0], g.load.computing[rungs-1] = 2, 1
	g.head(0)
	x := g.head(level(passRung))
	if got := g.leastOf(0, &g.home, false); got != x {
		t.Errorf("%+v goes", got)
	}
}

// TestWhoPassesADoor: those who are within their share pass each that is not closed, strangers not those that are for
// these only, and who is ahead only open ones.
func TestWhoPassesADoor(t *testing.T) {
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
			heap(q).push(&Ticket{queueEntry: queueEntry{site: &g.home, client: new(client), stale: true}})
			c := candidate{rank: math.Inf(1)}
			if c.look(g, &g.home, q, doors{door, door}); (c.first() != nil) != want[who] {
				t.Errorf("door %d: one of heap %d goes: %t", door, who, !want[who])
			}
		}
	}
}

// TestRoomToTry: what nobody knows is tried one at a time, while there is a worker.
func TestRoomToTry(t *testing.T) {
	for name, x := range map[string]struct {
		set  func(*gate)
		want bool
	}{
		"nobody is there":             {func(*gate) {}, true},
		"one is being tried":          {func(g *gate) { g.load.probing = 1 }, false},
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
		t.Error("nobody waits")
	}
}

// TestWhoMayHoldNoWorkerIsNotTried: it is parked, and the next one is.
func TestWhoMayHoldNoWorkerIsNotTried(t *testing.T) {
	g := shaped()
	first, second := g.head(fresh), g.head(fresh)
	first.n, first.reservations[0] = 1, reservation{Bucket: &bucket{Value: keyAtGate{holds: 8}}, Terms: &account.Terms{Workers: 0.5}}
	if got := g.toProbeOf(0, &g.home); got != second || first.heap != &g.home.parked {
		t.Errorf("%+v is tried", got)
	}
	g.home.queues[fresh].underShare.remove(second)
	if got := g.toProbeOf(0, &g.home); got != nil {
		t.Errorf("%+v is tried, and nobody else is there", got)
	}
}
