package limiter

import (
	"math"
	"testing"
	"time"
)

// TestARequestCostsWhatItCosts: whatever a request was charged with on its way, in the end its client and
// its key have what it cost, and nothing if it was never settled.
func TestARequestCostsWhatItCosts(t *testing.T) {
	const ms = time.Millisecond
	for name, x := range map[string]struct {
		guess    time.Duration
		progress []time.Duration
		cost     time.Duration // negative: it leaves
	}{
		"as guessed":                {400 * ms, nil, 400 * ms},
		"less":                      {400 * ms, nil, 100 * ms},
		"nothing":                   {400 * ms, nil, 0},
		"more":                      {400 * ms, nil, 1000 * ms},
		"more as it ran":            {400 * ms, []time.Duration{600 * ms, 1000 * ms}, 1000 * ms},
		"more, and a little more":   {400 * ms, []time.Duration{600 * ms}, 700 * ms},
		"more as it ran, then less": {400 * ms, []time.Duration{600 * ms, 1000 * ms}, 800 * ms},
		"less as it ran":            {400 * ms, []time.Duration{100 * ms, 300 * ms}, 300 * ms},
		"it leaves":                 {400 * ms, nil, -1},
		"it leaves after more":      {400 * ms, []time.Duration{1000 * ms}, -1},
		"nothing was guessed":       {0, nil, 100 * ms},
		"nothing, as was guessed":   {0, nil, 0},
	} {
		w := siegeOf("a")
		was := w.levelOf("a")
		r := w.of("a", x.guess)
		w.expectPhase(t, name, r, computing)
		f, share := r.flow, r.flow.share
		before := f.virtualTime - x.guess.Seconds()/share
		for _, soFar := range x.progress {
			w.Progress(w.now, r, soFar, true)
		}
		if x.cost < 0 {
			w.Leave(w.now, r)
		} else {
			w.done(r, x.cost)
		}
		cost := max(0, x.cost).Seconds()
		if moved := f.virtualTime - before - cost/share; math.IsNaN(moved) || math.Abs(moved) > 1e-9 {
			t.Errorf("%s: its client moved by %g, want %g", name, f.virtualTime-before, cost/share)
		}
		if math.Abs(was-w.levelOf("a")-cost) > 1e-9 {
			t.Errorf("%s: its key lost %g, want %g", name, was-w.levelOf("a"), cost)
		}
	}
}

// levelOf is what a client that was there has, in CPU-seconds.
func (w *world) levelOf(client string) float64 {
	row, _ := w.Find(w.now, by(client)[0])
	return row.Level
}

// TestWhoWaitedInVainPaysNothing: neither the head of a lane, nor who stands behind it.
func TestWhoWaitedInVainPaysNothing(t *testing.T) {
	w := siegeOf("hog", "a")
	hogs := []*Ticket{w.heavy("hog"), w.heavy("hog")}
	was := w.levelOf("a")
	first, second := w.heavy("a"), w.heavy("a")
	f := first.flow
	if w.phaseOf(first) != queued || math.Abs(was-w.levelOf("a")-0.4) > 1e-9 {
		t.Errorf("with two that wait %g are reserved, want one's 0.4", was-w.levelOf("a"))
	}
	w.Leave(w.now, second)
	w.Leave(w.now, first)
	if f.virtualTime > w.gate.home.clock.systemVirtualTime+1e-9 || math.Abs(was-w.levelOf("a")) > 1e-9 {
		t.Errorf("its client is at %g, its key lost %g", f.virtualTime, was-w.levelOf("a"))
	}
	w.done(hogs[0], 400*time.Millisecond)
	w.done(hogs[1], 400*time.Millisecond)
}

// TestWhatThoseWithinTheirShareUse: what they used lately, but for long requests, is what those who are ahead have to
// leave.
func TestWhatThoseWithinTheirShareUse(t *testing.T) {
	for r, size := range sizes {
		for _, ahead := range []bool{false, true} {
			w := siegeOf("x", "beside")
			beside := w.of("beside", time.Second) // else all are even again
			if ahead {
				y := w.of("x", sizes[0])
				w.gate.chargeFlow(y, 1)
				w.Leave(w.now, y)
			}
			x := w.of("x", size)
			w.done(x, size)
			all := 0.0
			if !ahead && rung(r) <= passRung {
				all = size.Seconds()
			}
			if w.gate.usedUnderShare.sum != all || x.Verdict().Ahead != ahead {
				t.Errorf("of rung %d, ahead %t: %g are used, want %g", r, ahead, w.gate.usedUnderShare.sum, all)
			}
			w.done(beside, time.Second)
		}
	}
}
