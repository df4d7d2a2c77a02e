package limiter

import (
	"math"
	"testing"
	"time"
)

// TestChargesEndAtTheCost: whatever a request was charged while it waited and ran, its client and its key are
// charged its cost in the end. If the request was never settled, they are charged nothing.
func TestChargesEndAtTheCost(t *testing.T) {
	const ms = time.Millisecond
	for name, x := range map[string]struct {
		guess    time.Duration
		progress []time.Duration
		cost     time.Duration // negative: the request leaves without being settled
	}{
		"as guessed":             {400 * ms, nil, 400 * ms},
		"less":                   {400 * ms, nil, 100 * ms},
		"nothing":                {400 * ms, nil, 0},
		"more":                   {400 * ms, nil, 1000 * ms},
		"charged more as it ran": {400 * ms, []time.Duration{600 * ms, 1000 * ms}, 1000 * ms},
		"charged more as it ran, then a little more": {400 * ms, []time.Duration{600 * ms}, 700 * ms},
		"charged more as it ran, then less":          {400 * ms, []time.Duration{600 * ms, 1000 * ms}, 800 * ms},
		"used less as it ran":                        {400 * ms, []time.Duration{100 * ms, 300 * ms}, 300 * ms},
		"leaves at once":                             {400 * ms, nil, -1},
		"leaves after it was charged more":           {400 * ms, []time.Duration{1000 * ms}, -1},
		"guess of nothing":                           {0, nil, 100 * ms},
		"costs nothing, as guessed":                  {0, nil, 0},
	} {
		w := siegeOf("a")
		was := credit(t, w, "a")
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
			t.Errorf("%s: the client moved by %g, want %g", name, f.virtualTime-before, cost/share)
		}
		if math.Abs(was-credit(t, w, "a")-cost) > 1e-9 {
			t.Errorf("%s: the key lost %g, want %g", name, was-credit(t, w, "a"), cost)
		}
	}
}

// TestWaitingInVainCostsNothing: the head of a lane and the request behind it aren't charged if they never ran.
func TestWaitingInVainCostsNothing(t *testing.T) {
	w := siegeOf("hog", "a")
	hogs := []*Ticket{w.heavy("hog"), w.heavy("hog")}
	was := credit(t, w, "a")
	first, second := w.heavy("a"), w.heavy("a")
	f := first.flow
	if w.phaseOf(first) != queued || math.Abs(was-credit(t, w, "a")-0.4) > 1e-9 {
		t.Errorf("with two waiting requests, %g is reserved, want 0.4 for one", was-credit(t, w, "a"))
	}
	w.Leave(w.now, second)
	w.Leave(w.now, first)
	if f.virtualTime > w.gate.home.clock.systemVirtualTime+1e-9 || math.Abs(was-credit(t, w, "a")) > 1e-9 {
		t.Errorf("the client is at %g, and its key lost %g", f.virtualTime, was-credit(t, w, "a"))
	}
	w.done(hogs[0], 400*time.Millisecond)
	w.done(hogs[1], 400*time.Millisecond)
}

// TestRoomForClientsWithinTheirShare: clients over their share must leave room for the CPU time that clients
// within theirs have recently used, not counting long requests.
func TestRoomForClientsWithinTheirShare(t *testing.T) {
	for r, size := range sizes {
		for _, ahead := range []bool{false, true} {
			w := siegeOf("x", "beside")
			beside := w.of("beside", time.Second) // keeps the clock running; otherwise all leads would be reset
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
				t.Errorf("on rung %d, ahead %t: %g is used, want %g", r, ahead, w.gate.usedUnderShare.sum, all)
			}
			w.done(beside, time.Second)
		}
	}
}
