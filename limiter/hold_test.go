package limiter

import (
	"fmt"
	"testing"
	"time"

	"tempomat/limiter/account"
)

// bounded is the usual policy, in which a client may hold half of the workers
// that are not kept for short requests, and a /24 three quarters.
func bounded() Policy {
	p := fair()
	p.MaxHeld = 512
	p.Classes = []ClassInfo{
		{"slash32", Budget{CPUs: 0.2, Burst: 6 * second, Workers: 0.5}},
		{"slash24", Budget{CPUs: 0.5, Burst: 15 * second, Workers: 0.75}},
	}
	return p
}

// poll asks for something that is known to hold a worker for 25 s.
func (w *world) poll(ids ...string) *Ticket {
	return w.Arrive(w.now, Arrival{Client: host(ids[0]), Others: networks(ids[1:]...), Guess: 3 * second, Idle: 25 * second, Sure: true})
}

func (w *world) expectState(t *testing.T, what string, want map[string]int) {
	t.Helper()
	g := w.GateState()
	for name, got := range map[string]int{
		"busy": g.Busy, "long": g.LongBusy, "holding": g.Holding, "computing": from(&g.Computing, 0), "queued": g.Queued, "orphans": g.Orphans,
	} {
		if n, ok := want[name]; ok && got != n {
			t.Errorf("%s: %s is %d, want %d", what, name, got, n)
		}
	}
}

// TestSomeWorkersAreKept has 40 clients of 40 networks ask for what holds a
// worker for 25 s, and the CPUs stand idle: of sixteen workers five are left to
// shorter requests, however long it goes on; and two, if half of those kinds are
// unknown and might have been short.
func TestSomeWorkersAreKept(t *testing.T) {
	for _, unknown := range []bool{false, true} {
		w := newWorld(bounded())
		w.acquaint("person")
		var streams []*Ticket
		for i := range 20 {
			id := fmt.Sprint("known ", i)
			w.acquaint(id)
			streams = append(streams, w.poll(id, id+"/24"))
			if id = fmt.Sprint("stranger ", i); unknown {
				streams = append(streams, w.Arrive(w.now, Arrival{Client: host(id), Others: networks(id + "/24"), Guess: 50 * time.Millisecond}))
			}
		}
		for range 60 {
			w.Measure(w.now, 0.01)
			for _, x := range streams {
				if w.phaseOf(x) != queued {
					w.Hold(w.now, x)
				}
			}
			w.run(100 * time.Millisecond)
		}
		left := 5
		if unknown {
			left = 2
		}
		if g := w.GateState(); g.Busy > 16-left || g.Busy < 11 {
			t.Errorf("unknown %t: %d workers are held, want 11 to %d", unknown, g.Busy, 16-left)
		}
		for range 2 {
			w.expectPhase(t, "a person's page", w.light("person"), computing)
		}
	}
}

// TestAClientHoldsAPart bounds what one client, and one network, may hold; who
// waits for that keeps nobody else waiting.
func TestAClientHoldsAPart(t *testing.T) {
	w := newWorld(bounded())
	w.acquaint("a", "b", "c", "d")
	var first *Ticket
	for range 9 {
		if x := w.poll("a", "net"); first == nil {
			first = x
		}
	}
	w.expectState(t, "one client", map[string]int{"holding": 5, "queued": 4})
	for range 9 {
		w.poll("b", "net")
	}
	w.expectState(t, "one network", map[string]int{"holding": 8, "queued": 10})
	w.expectPhase(t, "of another network", w.poll("c", "else"), holding)
	w.expectPhase(t, "the client's own page", w.light("a"), computing)
	w.done(first, 3*second)
	w.expectState(t, "one is done, and the next one goes", map[string]int{"holding": 9, "queued": 9})
}

// TestWhoWaitsTakesNoRoom: those that hardly compute take no room from those that
// do, nor the other way round.
func TestWhoWaitsTakesNoRoom(t *testing.T) {
	w := newWorld(bounded())
	w.acquaint("a", "b", "poller")
	x, y := w.heavy("a"), w.heavy("b")
	w.expectPhase(t, "two compute", w.heavy("a"), queued)
	w.expectPhase(t, "a poll", w.poll("poller"), holding)
	w.Progress(w.now, x, 300*time.Millisecond, false)
	w.expectPhase(t, "it was found to wait", x, holding)
	w.expectState(t, "its room is another's", map[string]int{"computing": 2, "queued": 0})
	w.Progress(w.now, x, 300*time.Millisecond, true)
	w.expectPhase(t, "it computes after all", x, computing)
	w.expectPhase(t, "nobody else moved", y, computing)
}

// TestStreamsHoldUntilTheyEnd: what was said to hold its worker does, whatever is
// measured, until it is settled.
func TestStreamsHoldUntilTheyEnd(t *testing.T) {
	w := newWorld(bounded())
	w.acquaint("a")
	x := w.light("a")
	w.Hold(w.now, x)
	w.expectPhase(t, "a stream, at once", x, holding)
	w.Progress(w.now, x, 500*time.Millisecond, true)
	w.expectPhase(t, "a stream", x, holding)
	w.expectState(t, "it is counted", map[string]int{"busy": 1, "long": 1})
	w.done(x, second)
	w.Hold(w.now, x)
	w.expectState(t, "it is over", map[string]int{"busy": 0, "long": 0, "holding": 0})
}

// TestAnOrphanGoesOnTakingRoom: who leaves a request behind makes no room for the
// next one by that.
func TestAnOrphanGoesOnTakingRoom(t *testing.T) {
	w := newWorld(bounded())
	w.acquaint("hasty", "b")
	x := w.heavy("hasty")
	w.heavy("b")
	w.Orphan(w.now, x)
	w.expectOn(t, "an orphan", x, computing, 2)
	y := w.heavy("b")
	w.expectPhase(t, "two of its size compute", y, queued)
	w.Progress(w.now, x, 6*time.Second, true)
	w.expectOn(t, "the orphan is longer", x, computing, 4)
	w.expectPhase(t, "than this one", y, computing)
	w.expectPhase(t, "but not than that", w.of("b", 10*time.Second), queued)
}

// TestTheLowerHalfOfARung: what is known to be of it counts as such; of what nobody knows, that was put on a rung for want
// of a better one, nothing is known.
func TestTheLowerHalfOfARung(t *testing.T) {
	for name, x := range map[string]struct {
		charged float64
		sure    bool
		level   level
		r       rung
		want    bool
	}{
		"half of it":                   {0.2, true, 2, 2, true},
		"more":                         {0.2001, true, 2, 2, false},
		"it climbed, and is more":      {0.9, true, 2, 3, false},
		"it climbed":                   {0.5, true, 2, 3, true},
		"nobody knows":                 {0.01, false, fresh, unknownRung, false},
		"nobody knew, and it climbed":  {3.2, false, fresh, unknownRung + 1, true},
		"it climbed to the upper half": {3.3, false, fresh, unknownRung + 1, false},
	} {
		g := shaped()
		r := &Ticket{request: request{sure: x.sure}, charge: charge{charged: x.charged}, queueEntry: queueEntry{level: x.level, site: &g.home, client: new(client)}}
		g.countIn(r, computing, x.r)
		if r.low != x.want || (g.load.low[x.r] == 1) != x.want || g.load.computing[x.r] != 1 {
			t.Errorf("%s: it is of the lower half: %t; %+v", name, r.low, g.load)
		}
		if g.countOut(r); g.load != (load{}) {
			t.Errorf("%s: it has left %+v", name, g.load)
		}
	}
}

// TestWhoIsParked: looking for who wants a CPU parks those whose keys hold too many workers, but for one that waits
// to be tried.
func TestWhoIsParked(t *testing.T) {
	for name, x := range map[string]struct {
		level   level
		sure    bool
		behind  bool // one stands behind it that may hold a worker
		wanted  bool
		parked  bool
		holding int32
	}{
		"it may have one":                      {level: 3, sure: true, wanted: true, holding: 4},
		"its keys hold too many":               {level: 3, sure: true, parked: true, holding: 5},
		"and another one may have one":         {level: 3, sure: true, behind: true, wanted: true, parked: true, holding: 5},
		"unknown, and may be tried":            {level: fresh, holding: 5},
		"unknown, and its keys hold far more":  {level: fresh, parked: true, holding: 8},
		"unknown, and another one behind it":   {level: fresh, behind: true, parked: true, wanted: true, holding: 8},
		"it hardly computes, and wants no CPU": {level: waitsAt(3), sure: true, holding: 4},
	} {
		g := shaped()
		g.contending = []*site{{}, &g.home}
		of := func(holds int32, order uint64) *Ticket {
			r := &Ticket{request: request{sure: x.sure}, charge: charge{n: 1}, queueEntry: queueEntry{level: x.level, order: order, site: &g.home, client: new(client)}}
			r.reservations[0] = reservation{Bucket: &bucket{Value: keyAtGate{holds: holds}}, Terms: &account.Terms{Workers: 0.5}}
			g.home.queues[x.level].underShare.push(r)
			return r
		}
		r := of(x.holding, 1)
		if x.behind {
			of(0, 2)
		}
		if got := g.wanted(); got != x.wanted || (r.heap == &g.home.parked) != x.parked || r.heap == nil {
			t.Errorf("%s: a CPU is wanted: %t; it is parked: %t", name, got, r.heap == &g.home.parked)
		}
	}
}
