package limiter

import (
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter/account"
)

// balance returns the state of a key's account, with the client's standing applied.
func (l *Limiter) balance(now time.Time, k Key) account.State {
	s, _ := l.table.Find(l.since(now), k)
	return s
}

// TestLongerOnesAreNotWaitedFor: a request of a client over its share waits until the long requests of other
// such clients leave CPUs free. Longer requests don't count. If the request's own cost is unknown, only much
// longer ones don't count. While requests compute that at first only held a worker, the request waits for none.
func TestLongerOnesAreNotWaitedFor(t *testing.T) {
	for name, x := range map[string]struct {
		level     level
		there     rung
		many      int
		uninvited int
		unsure    bool
		ofItsPart float64 // CPUs that its site recently used; its part is two
		want      bool
	}{
		"as long as the request":       {level: 3, there: 3, many: 3},
		"longer":                       {level: 3, there: 4, many: 3, want: true},
		"longer, its own cost unknown": {level: 3, there: 4, many: 3, unsure: true, want: true},
		"shorter, but still long":      {level: 5, there: 3, many: 3},
		"of the longest size":          {level: rungs - 1, there: rungs - 1, many: 3},

		"one only held a worker":                       {level: 3, there: 3, many: 3, uninvited: 1, want: true},
		"one only held a worker, its own cost unknown": {level: 3, there: 3, many: 3, uninvited: 1, unsure: true},

		"as long, its site used less than its part": {level: 3, there: 3, many: 3, ofItsPart: 1.9, want: true},
		"as long, its site used its part":           {level: 3, there: 3, many: 3, ofItsPart: 2.1},
	} {
		g := shaped()
		g.load.computing[x.there], g.load.overShare[x.there], g.load.uninvited = x.many, x.many, x.uninvited
		r := &Ticket{request: request{sure: !x.unsure}, queueEntry: queueEntry{level: x.level, overShare: true, site: &g.home, flow: &flow{share: 0.5, virtualTime: 14}}}
		if x.ofItsPart > 0 {
			g.divided, g.home.used.sum, g.home.among.share = true, x.ofItsPart*usedFor.Seconds(), 1
		}
		testkit.Same(t, x.want, g.leavesCPU(0, r), "%s: the request starts", name)
	}
}

// TestRoomNextToLongerRequests: up to 400 ms, there is extra room for half as many requests as there are longer
// ones. On each rung, there is extra room for as many requests as at first only held a worker.
func TestRoomNextToLongerRequests(t *testing.T) {
	for name, x := range map[string]struct {
		there     rung
		many      int
		uninvited int
		want      [rungs]int // the room on each rung
	}{
		"none":                               {want: [rungs]int{2, 2, 2, 2, 2, 2, 2}},
		"one":                                {there: 4, many: 1, want: [rungs]int{3, 3, 3, 2, 2, 2, 2}},
		"two":                                {there: 4, many: 2, want: [rungs]int{3, 3, 3, 2, 2, 2, 2}},
		"twenty":                             {there: 4, many: 20, want: [rungs]int{12, 12, 12, 2, 2, 2, 2}},
		"twenty of the longest size":         {there: rungs - 1, many: 20, want: [rungs]int{12, 12, 12, 2, 2, 2, 2}},
		"twenty of the next rung":            {there: passRung + 1, many: 20, want: [rungs]int{12, 12, 2, 2, 2, 2, 2}},
		"twenty light ones":                  {there: lightRung, many: 20, want: [rungs]int{2, 2, 2, 2, 2, 2, 2}},
		"twenty only held a worker":          {there: 4, many: 20, uninvited: 20, want: [rungs]int{22, 22, 22, 22, 22, 22, 22}},
		"three of twenty only held a worker": {there: 4, many: 20, uninvited: 3, want: [rungs]int{12, 12, 12, 5, 5, 5, 5}},
	} {
		g := shaped()
		g.load.computing[x.there], g.load.uninvited = x.many, x.uninvited
		for r := range rung(rungs) {
			testkit.Same(t, x.want[r], g.room(0, r), "%s: room on rung %d", name, r)
		}
	}
}

// TestUninvitedRequests: a request that is observed not to compute, and later computes, counts as uninvited,
// because the ladder made no room for it.
func TestUninvitedRequests(t *testing.T) {
	w := siegeOf("a")
	x := w.of("a", 10*time.Second)
	for i, c := range []struct {
		computes bool
		want     int
	}{{true, 0}, {false, 0}, {true, 1}, {true, 1}, {false, 0}, {true, 1}} {
		w.run(time.Second)
		w.Progress(w.now, x, time.Duration(i)*time.Second, c.computes)
		testkit.Same(t, c.want, w.gate.load.uninvited, "step %d: uninvited requests", i)
	}
	w.done(x, 6*time.Second)
	testkit.Same(t, 0, w.gate.load.uninvited, "uninvited requests after the end")
}
