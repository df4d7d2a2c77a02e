package limiter

import (
	"testing"
	"time"

	"tempomat/limiter/account"
)

// bounded returns the usual policy. A client may hold half of the workers that aren't kept for short requests,
// and a /24 three quarters.
func bounded() Policy {
	p := fair()
	p.MaxHeld = 512
	p.Classes = []ClassInfo{
		{"slash32", Budget{CPUs: 0.2, Burst: 6 * second, Workers: 0.5}},
		{"slash24", Budget{CPUs: 0.5, Burst: 15 * second, Workers: 0.75}},
	}
	return p
}

// poll sends a request that is known to hold a worker for 25 s.
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

// TestAClientHoldsAPart limits what one client and one network may hold. Requests that wait because of this
// don't make others wait.
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
	w.expectState(t, "one poll is done, and the next one goes", map[string]int{"holding": 9, "queued": 9})
}

// TestWaitingTakesNoRoom: requests that hardly compute take no room from requests that compute, and vice versa.
func TestWaitingTakesNoRoom(t *testing.T) {
	w := newWorld(bounded())
	w.acquaint("a", "b", "poller")
	x, y := w.heavy("a"), w.heavy("b")
	w.expectPhase(t, "two compute", w.heavy("a"), queued)
	w.expectPhase(t, "a poll", w.poll("poller"), holding)
	w.Progress(w.now, x, 300*time.Millisecond, false)
	w.expectPhase(t, "a request that turned out to wait", x, holding)
	w.expectState(t, "another request got the first one's room", map[string]int{"computing": 2, "queued": 0})
	w.Progress(w.now, x, 300*time.Millisecond, true)
	w.expectPhase(t, "the same request computes again", x, computing)
	w.expectPhase(t, "the others didn't move", y, computing)
}

// TestStreamsHoldUntilTheyEnd: a stream holds its worker until it is settled, whatever is measured.
func TestStreamsHoldUntilTheyEnd(t *testing.T) {
	w := newWorld(bounded())
	w.acquaint("a")
	x := w.light("a")
	w.Hold(w.now, x)
	w.expectPhase(t, "a stream, at once", x, holding)
	w.Progress(w.now, x, 500*time.Millisecond, true)
	w.expectPhase(t, "a stream", x, holding)
	w.expectState(t, "the stream is counted", map[string]int{"busy": 1, "long": 1})
	w.done(x, second)
	w.Hold(w.now, x)
	w.expectState(t, "the stream has ended", map[string]int{"busy": 0, "long": 0, "holding": 0})
}

// TestAnOrphanGoesOnTakingRoom: a client that disconnects from a request doesn't make room for its next one.
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
	w.expectOn(t, "the orphan turns out longer", x, computing, 4)
	w.expectPhase(t, "a shorter request than the orphan", y, computing)
	w.expectPhase(t, "a request as long as the orphan", w.of("b", 10*time.Second), queued)
}

// TestTheLowerHalfOfARung: a request of known cost counts in the lower half of its rung if its cost lies there.
// A request of unknown cost doesn't count in the lower half of the rung where it started.
func TestTheLowerHalfOfARung(t *testing.T) {
	for name, x := range map[string]struct {
		charged float64
		sure    bool
		level   level
		r       rung
		want    bool
	}{
		"half of its rung's size":                 {0.2, true, 2, 2, true},
		"more":                                    {0.2001, true, 2, 2, false},
		"known cost, climbed to the upper half":   {0.9, true, 2, 3, false},
		"known cost, climbed to the lower half":   {0.5, true, 2, 3, true},
		"unknown cost":                            {0.01, false, fresh, briefRung, false},
		"unknown cost, climbed one rung":          {3.2, false, fresh, briefRung + 1, true},
		"unknown cost, climbed to the upper half": {3.3, false, fresh, briefRung + 1, false},
	} {
		g := shaped()
		r := &Ticket{request: request{sure: x.sure}, charge: charge{charged: x.charged}, queueEntry: queueEntry{level: x.level, site: &g.home, client: new(client)}}
		g.countIn(r, computing, x.r)
		if r.low != x.want || (g.load.low[x.r] == 1) != x.want || g.load.computing[x.r] != 1 {
			t.Errorf("%s: the request is in the lower half: %t; %+v", name, r.low, g.load)
		}
		r.charged = x.r.most()
		if g.move(r, computing, x.r); g.load.low[x.r] != 0 {
			t.Errorf("%s: the request used as much as the rung allows, and is still in the lower half", name)
		}
		if g.countOut(r); g.load != (load{}) {
			t.Errorf("%s: the request left %+v behind", name, g.load)
		}
	}
}

// TestParking: wantedOf parks requests whose keys hold too many workers, unless they wait to become a probe.
func TestParking(t *testing.T) {
	for name, x := range map[string]struct {
		level   level
		sure    bool
		behind  bool // a request that may hold a worker waits behind this one
		wanted  bool
		parked  bool
		holding int32
	}{
		"may hold a worker":                                          {level: 3, sure: true, wanted: true, holding: 4},
		"keys hold too many":                                         {level: 3, sure: true, parked: true, holding: 5},
		"keys hold too many, the next one's don't":                   {level: 3, sure: true, behind: true, wanted: true, parked: true, holding: 5},
		"unknown cost, may be tried":                                 {level: fresh, holding: 5},
		"unknown cost, keys hold far too many":                       {level: fresh, parked: true, holding: 8},
		"unknown cost, keys hold far too many, the next one's don't": {level: fresh, behind: true, parked: true, wanted: true, holding: 8},
		"hardly computes, needs no CPU":                              {level: waitsAt(3), sure: true, holding: 4},
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
			t.Errorf("%s: a CPU is wanted: %t; the request is parked: %t", name, got, r.heap == &g.home.parked)
		}
	}
}
