package limiter

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// TestRungs are four times apart, from 25 ms.
func TestRungs(t *testing.T) {
	for _, c := range []struct {
		seconds float64
		want    rung
	}{
		{0, 0}, {0.001, 0}, {0.025, 0},
		{0.0251, 1}, {0.1, 1},
		{0.1001, 2}, {0.4, 2},
		{0.4001, 3}, {1.6, 3},
		{1.6001, 4}, {6.4, 4},
		{6.4001, 5}, {25.6, 5},
		{25.6001, 6}, {3600, 6}, {math.Inf(1), 6},
	} {
		if got := rungOf(c.seconds); got != c.want {
			t.Errorf("%g s: rung %d, want %d", c.seconds, got, c.want)
		}
	}
}

// TestPasses: who is within its share passes who is ahead with what is light, and with what computes for
// seconds; with up to 400 ms where CPUs are idle, or the kernel takes them from who is ahead.
func TestPasses(t *testing.T) {
	w := siegeOf()
	for _, c := range []struct {
		use      float64
		preempts bool
		want     rung // the last one of the shorter
	}{{1, false, lightRung}, {0.5, false, passRung}, {1, true, passRung}, {0.5, true, passRung}} {
		w.Preempts(c.preempts)
		w.gate.utilisation = c.use
		for r := range rung(rungs) {
			if got := w.gate.passes(r); got != (r <= c.want || r > unknownRung) {
				t.Errorf("use %g, preempts %t: rung %d passes: %t", c.use, c.preempts, r, got)
			}
		}
	}
}

// TestLevels: each level knows its rung, and whether it needs a CPU.
func TestLevels(t *testing.T) {
	seen := map[level]bool{}
	for r := range rung(rungs) {
		l, w := level(r), waitsAt(r)
		if l.rung() != r || !l.computes() || l.short() != (r <= lightRung) {
			t.Errorf("level %d: rung %d, computes %t, short %t", l, l.rung(), l.computes(), l.short())
		}
		if w.rung() != max(r, lightRung+1) || w.computes() || w.short() || int(w) >= levels {
			t.Errorf("level %d: rung %d, computes %t, short %t", w, w.rung(), w.computes(), w.short())
		}
		seen[l], seen[w] = true, true
	}
	if fresh.rung() != unknownRung || !fresh.computes() || fresh.short() || seen[fresh] {
		t.Errorf("what nobody knows: rung %d, computes %t, short %t", fresh.rung(), fresh.computes(), fresh.short())
	}
	if seen[fresh] = true; len(seen) != levels {
		t.Errorf("%d levels in use, there are %d", len(seen), levels)
	}
}

// TestLevelOf: where a request waits, by what is known of it. A worker is worth an
// eighth of a CPU.
func TestLevelOf(t *testing.T) {
	w := siegeOf()
	for _, c := range []struct {
		guess, idle, running float64
		sure                 bool
		want                 level
	}{
		{guess: 0.02, sure: true, want: 0},
		{guess: 3, sure: true, want: 4},
		{guess: 0.02, want: fresh},
		{guess: 30, want: fresh}, // it may be light all the same
		{guess: 0.02, running: 0.1, want: fresh},
		{guess: 0.02, running: 0.2, want: level(unknownRung)}, // its like was dear
		{guess: 0.02, running: 20, want: 5},
		{guess: 20, running: 0.2, want: 5},
		{guess: 0.02, idle: 0.9, sure: true, want: 0}, // it does not wait for long
		{guess: 0.02, idle: 1, sure: true, want: waitsAt(2)},
		{guess: 0.02, idle: 10, sure: true, want: waitsAt(3)},
		{guess: 1, idle: 7, sure: true, want: waitsAt(3)},
		{guess: 1.1, idle: 7, sure: true, want: 3}, // eight of the like fill a CPU
		{guess: 3, idle: 60, sure: true, want: waitsAt(5)},
	} {
		x := &Ticket{request: request{likelyIdle: c.idle, running: c.running, sure: c.sure}, charge: charge{guess: c.guess}}
		if got := w.gate.levelOf(x); got != c.want {
			t.Errorf("%+v: level %d", c, got)
		}
	}
}

// TestLongerOnesDoNotCount fills the ladder from above with clients that are within
// their share: at each rung some are let in whatever is longer, and the next one
// waits for its like.
func TestLongerOnesDoNotCount(t *testing.T) {
	w := siegeOf()
	want := [rungs]int{2: 3, 3: 2, 4: 2, 5: 2, 6: 2} // half as many more of rung 2 as there are much longer ones
	for r := rungs - 1; r > int(lightRung); r-- {
		var xs []*Ticket
		for range want[r] + 1 {
			xs = append(xs, w.another(sizes[r]))
		}
		what := fmt.Sprint("rung ", r)
		w.expectRun(t, what, xs, want[r])
		w.expectPhase(t, what+", the last", xs[want[r]], queued)
		w.done(xs[0], sizes[r])
		w.expectPhase(t, what+", after the first", xs[want[r]], computing)
	}
	if g := w.GateState(); g.Computing != want {
		t.Errorf("%v compute, want %v", g.Computing, want)
	}
}

// TestShorterOnesCount: a request waits for those that are as short or shorter.
func TestShorterOnesCount(t *testing.T) {
	for r := 1; r < rungs; r++ {
		w := siegeOf("a", "b", "c")
		first := w.of("a", sizes[0])
		w.of("b", sizes[r-1])
		x := w.of("c", sizes[r])
		w.expectPhase(t, fmt.Sprint("rung ", r), x, queued)
		w.done(first, sizes[0])
		w.expectPhase(t, fmt.Sprint("rung ", r, ", after one"), x, computing)
	}
}

// TestWhoIsNotLightIsDistrusted: the like of a request that came as a light one has no more room than others for a while,
// from when it is found not to be light.
func TestWhoIsNotLightIsDistrusted(t *testing.T) {
	w := siegeOf("a")
	began := w.elapsed()
	x := w.light("a")
	for _, step := range []struct {
		ms   int
		want time.Duration
	}{{26, 0}, {100, 0}, {101, began + patience + 20*time.Millisecond}, {500, began + patience + 20*time.Millisecond}} {
		if w.Progress(w.now, x, time.Duration(step.ms)*time.Millisecond, true); w.gate.trustAgain != step.want {
			t.Errorf("after %d ms such are trusted again at %v, want %v", step.ms, w.gate.trustAgain, step.want)
		}
		w.now = w.now.Add(10 * time.Millisecond)
	}
	w.done(x, time.Second)
	w = siegeOf("a")
	if w.Progress(w.now, w.of("a", sizes[2]), 2*time.Second, true); w.gate.trustAgain != 0 {
		t.Error("one that came as a longer one makes light ones distrusted")
	}
	w.of("a", sizes[3])
	x = w.Arrive(w.now, Arrival{Client: host("a")})
	w.expectPhase(t, "one that nobody knows", x, probing)
	if w.Progress(w.now, x, time.Second, true); w.gate.trustAgain != 0 {
		t.Error("one of which nothing was known makes light ones distrusted")
	}
}

// outrun has a client be ahead of its share from now on.
func (w *world) outrun(client string) {
	x := w.light(client)
	w.gate.chargeFlow(x, 1)
	w.done(x, 0)
}

// TestWithinPassesAhead: up to rung 2, and up to 1 where the CPUs are full, and on those of seconds who
// is within its share passes those who are ahead of it; as many as there is room for, and
// not beyond.
func TestWithinPassesAhead(t *testing.T) {
	for r, size := range sizes {
		passesAhead(t, r, size, 0.5, int(passRung))
		passesAhead(t, r, size, 1, int(lightRung))
	}
}

func passesAhead(t *testing.T, r int, size time.Duration, use float64, last int) {
	t.Helper()
	w := siegeOf("ahead", "a", "b", "c")
	w.Measure(w.now, use)
	busy := w.Arrive(w.now, Arrival{Client: host("c"), Guess: time.Second, Idle: time.Minute, Sure: true}) // else all are even again
	w.outrun("ahead")
	w.expectRun(t, "those who are ahead", []*Ticket{w.of("ahead", size), w.of("ahead", size), w.of("ahead", size)}, 2)
	if g := w.GateState(); g.Ahead[r] != 2 {
		t.Fatalf("rung %d: %v are ahead, want 2", r, g.Ahead)
	}
	want := 0
	if r <= last || r > int(unknownRung) {
		want = 2
	}
	xs := []*Ticket{w.of("a", size), w.of("b", size), w.of("c", size)}
	w.expectRun(t, fmt.Sprint("rung ", r, ": those within their share"), xs, want)
	if g := w.GateState(); g.Ahead[r] != 2 || g.Computing[r] != 2+want {
		t.Errorf("rung %d: %d compute, %d of them ahead; want %d, 2", r, g.Computing[r], g.Ahead[r], 2+want)
	}
	w.expectPhase(t, "it waits for nothing of that", busy, holding)
}

// TestTheBoundOfTwoRungs: requests of much the same size have the room of one rung
// between them, on whichever side of its bound they lie; those half as long have
// their own.
func TestTheBoundOfTwoRungs(t *testing.T) {
	w := newWorld(fair())
	w.acquaint("a", "b", "c", "d")
	longer := []*Ticket{w.of("a", 410*time.Millisecond), w.of("b", 790*time.Millisecond)}
	w.expectRun(t, "just beyond the bound", longer, 2)
	w.expectPhase(t, "just below it", w.of("c", 390*time.Millisecond), queued)
	w.expectPhase(t, "half as long", w.of("d", 190*time.Millisecond), computing)
	w.done(longer[0], 410*time.Millisecond)
	w.done(longer[1], 790*time.Millisecond)
	w = newWorld(fair())
	w.acquaint("a", "b", "c")
	w.of("a", 810*time.Millisecond)
	w.of("b", 810*time.Millisecond)
	w.expectPhase(t, "twice as long ones compute", w.of("c", 390*time.Millisecond), computing)
}

// TestWhoIsMisjudgedGetsNoMoreKeptWorkers: a client that is ahead, and has a request
// that came as a short one and is not, has its next short ones wait for it. Who is
// within its share has not.
func TestWhoIsMisjudgedGetsNoMoreKeptWorkers(t *testing.T) {
	w := siegeOf("ahead", "within")
	for _, c := range []struct {
		client string
		cost   time.Duration
		want   phase
	}{{"ahead", 700 * time.Millisecond, queued}, {"within", 200 * time.Millisecond, computing}} {
		x := w.light(c.client)
		w.Progress(w.now, x, c.cost, true)
		y := w.light(c.client)
		w.expectPhase(t, c.client+": the next short one", y, c.want)
		w.done(x, c.cost)
		w.expectPhase(t, c.client+": once the first is done", y, computing)
		w.done(y, 0)
	}
}

// TestMisjudgedOnesShutNobodyElseOut: known clients' requests that came as light ones
// and are not use up the kept workers for those who are ahead, and not for strangers.
func TestMisjudgedOnesShutNobodyElseOut(t *testing.T) {
	w := newWorld(bounded())
	names := []string{"a", "b", "c", "d", "e", "f"}
	w.acquaint(names...)
	for _, who := range names {
		x := w.light(who)
		w.Progress(w.now, x, 10*time.Second, true)
		w.expectOn(t, "a misjudged one", x, computing, 5)
	}
	w.outrun("a")
	w.expectPhase(t, "who is ahead", w.light("a"), queued)
	w.expectPhase(t, "a stranger", w.light("stranger"), computing)
}
