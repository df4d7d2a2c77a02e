package limiter

import (
	"fmt"
	"math"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestRungs: the shortest rung ends at 25 ms, and each of the others is four times as long as the previous one.
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
		testkit.Same(t, c.want, rungOf(c.seconds), "%g s: rung", c.seconds)
	}
}

// TestPasses: light requests, and requests that compute for seconds, of clients within their share pass those
// of clients over their share. Requests of 100 to 400 ms pass only if CPUs are idle or the kernel preempts.
func TestPasses(t *testing.T) {
	w := siegeOf()
	for _, c := range []struct {
		use      float64
		preempts bool
		want     rung // the longest of the shorter rungs that pass
	}{{1, false, lightRung}, {0.5, false, passRung}, {1, true, passRung}, {0.5, true, passRung}} {
		w.Preempts(c.preempts)
		w.gate.utilisation = c.use
		for r := range rung(rungs) {
			testkit.Same(t, r <= c.want || r > briefRung, w.gate.passes(r), "use %g, preempts %t: rung %d passes", c.use, c.preempts, r)
		}
	}
}

// TestLevels: each level has the right rung, and rightly counts as one that needs a CPU or doesn't.
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
	if fresh.rung() != briefRung || !fresh.computes() || fresh.short() || seen[fresh] {
		t.Errorf("unknown cost: rung %d, computes %t, short %t", fresh.rung(), fresh.computes(), fresh.short())
	}
	if seen[fresh] = true; len(seen) != levels {
		t.Errorf("%d levels are in use, but there are %d", len(seen), levels)
	}
}

// TestLevelOf checks the level at which a request waits, depending on what is known about it. A worker is
// worth an eighth of a CPU.
func TestLevelOf(t *testing.T) {
	w := siegeOf()
	for _, c := range []struct {
		guess, idle, running float64
		sure, uploads        bool
		want                 level
	}{
		{guess: 0.02, sure: true, want: 0},
		{guess: 3, sure: true, want: 4},
		{guess: 0.02, want: fresh},
		{guess: 30, want: fresh}, // the request may be light, whatever the guess
		{guess: 0.02, running: 0.1, want: fresh},
		{guess: 0.02, running: 0.2, want: level(briefRung)}, // others of the same kind were expensive
		{guess: 0.02, running: 20, want: 5},
		{guess: 20, running: 0.2, want: 5},
		{guess: 0.02, idle: 0.9, sure: true, want: 0}, // the request doesn't wait for long
		{guess: 0.02, idle: 1, sure: true, want: waitsAt(2)},
		{guess: 0.02, idle: 10, sure: true, want: waitsAt(3)},
		{guess: 1.8, idle: 7, sure: true, want: waitsAt(4)}, // of which its worker costs 0.875
		{guess: 1.9, idle: 7, sure: true, want: 4},          // eight such requests fill a CPU
		{guess: 3, idle: 60, sure: true, want: waitsAt(5)},
		{guess: 0.02, idle: 1, sure: true, uploads: true, want: waitsAt(6)},
		{guess: 3, idle: 3, uploads: true, want: waitsAt(6)},
		{guess: 3, idle: 3, sure: true, uploads: true, want: 4}, // the request also computes
	} {
		x := &Ticket{request: request{likelyIdle: c.idle, running: c.running, sure: c.sure, uploads: c.uploads}, charge: charge{guess: c.guess}}
		testkit.Same(t, c.want, w.gate.levelOf(x), "%+v: level", c)
	}
}

// TestLongerOnesDoNotCount fills the ladder from the longest rung down, with clients within their share. On
// each rung, some requests start whatever longer ones run, and the next one waits for a request of its size.
func TestLongerOnesDoNotCount(t *testing.T) {
	w := siegeOf()
	want := [rungs]int{2: 5, 3: 2, 4: 2, 5: 2, 6: 2} // on rung 2, half as many more as there are much longer ones
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
	testkit.Same(t, want, w.GateState().Computing, "compute")
}

// TestShorterOnesCount: a request waits for requests as short or shorter.
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

// TestMisjudgedRequestsAreDistrusted: after a request that arrived as a light one turns out not to be light,
// light requests have no extra room for a while.
func TestMisjudgedRequestsAreDistrusted(t *testing.T) {
	w := siegeOf("a")
	began := w.elapsed()
	x := w.light("a")
	for _, step := range []struct {
		ms   int
		want time.Duration
	}{{26, 0}, {100, 0}, {101, began + patience + 20*time.Millisecond}, {500, began + patience + 20*time.Millisecond}} {
		if w.Progress(w.now, x, time.Duration(step.ms)*time.Millisecond, true); w.gate.trustAgain != step.want {
			t.Errorf("after %d ms, light requests are trusted again at %v, want %v", step.ms, w.gate.trustAgain, step.want)
		}
		w.now = w.now.Add(10 * time.Millisecond)
	}
	w.done(x, time.Second)
	w = siegeOf("a")
	if w.Progress(w.now, w.of("a", sizes[2]), 2*time.Second, true); w.gate.trustAgain != 0 {
		t.Error("a request that arrived as a longer one makes the gate distrust light ones")
	}
	w.of("a", sizes[3])
	x = w.Arrive(w.now, Arrival{Client: host("a")})
	w.expectPhase(t, "a request of unknown cost", x, probing)
	if w.Progress(w.now, x, time.Second, true); w.gate.trustAgain != 0 {
		t.Error("a request of unknown cost makes the gate distrust light ones")
	}
}

// outrun puts a client over its share.
func (w *world) outrun(client string) {
	x := w.light(client)
	w.gate.chargeFlow(x, 1)
	w.done(x, 0)
}

// TestMisjudgedRequestsGetNoMoreKeptWorkers: if a client over its share has a misjudged request, its next short
// requests wait until that one ends. Those of a client within its share don't.
func TestMisjudgedRequestsGetNoMoreKeptWorkers(t *testing.T) {
	w := siegeOf("ahead", "within", "another")
	w.heavy("another") // without this request, the client's share would be the whole machine
	for _, c := range []struct {
		client string
		cost   time.Duration
		want   phase
	}{{"ahead", 1500 * time.Millisecond, queued}, {"within", 200 * time.Millisecond, computing}} {
		x := w.light(c.client)
		w.Progress(w.now, x, c.cost, true)
		y := w.light(c.client)
		w.expectPhase(t, c.client+": the next short one", y, c.want)
		w.done(x, c.cost)
		w.expectPhase(t, c.client+": the next one, once the first is done", y, computing)
		w.done(y, 0)
	}
}

// TestMisjudgedRequestsShutNoOthersOut: if known clients' misjudged requests use up the kept workers, short
// requests of known clients over their share wait, but those of strangers don't.
func TestMisjudgedRequestsShutNoOthersOut(t *testing.T) {
	w := newWorld(bounded())
	names := []string{"a", "b", "c", "d", "e", "f"}
	w.acquaint(names...)
	for _, who := range names {
		x := w.light(who)
		w.Progress(w.now, x, 10*time.Second, true)
		w.expectOn(t, "a misjudged request", x, computing, 5)
	}
	w.outrun("a")
	w.expectPhase(t, "a client over its share", w.light("a"), queued)
	w.expectPhase(t, "a stranger", w.light("stranger"), computing)
}
