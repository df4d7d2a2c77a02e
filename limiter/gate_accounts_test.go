package limiter

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
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

// TestForetoldOrder: if nobody else comes, and what runs ends one after the other, those who wait go in the
// order that was told.
func TestForetoldOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := siegeOf("hog", "a", "b", "c")
		const page = 400 * time.Millisecond
		running := []*Ticket{w.heavy("hog"), w.heavy("hog")}
		var waiting []*Ticket
		for range rapid.IntRange(1, 12).Draw(t, "requests") {
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "ms")) * time.Millisecond)
			client := rapid.SampledFrom([]string{"hog", "a", "b", "c", "x", "y"}).Draw(t, "client") // x and y are strangers
			waiting = append(waiting, w.heavy(client))
		}
		outlooks := w.Outlooks(w.now, waiting, running)
		before := map[*Ticket]int{}
		for i, x := range waiting {
			before[x] = outlooks[i].Before
		}
		for went := 0; len(waiting) > 0; {
			w.done(running[0], page)
			running = running[1:]
			var next []*Ticket
			for _, x := range waiting {
				if w.phaseOf(x).running() {
					next = append(next, x)
				}
			}
			waiting = slices.DeleteFunc(waiting, func(x *Ticket) bool { return slices.Contains(next, x) })
			slices.SortFunc(next, func(a, b *Ticket) int { return before[a] - before[b] })
			for i, x := range next {
				if before[x] != went+i {
					t.Fatalf("one of those that go after %d others was told of %d before it", went, before[x])
				}
			}
			if went += len(next); len(running)+len(next) == 0 {
				t.Fatalf("%d wait for ever", len(waiting))
			}
			running = append(running, next...)
		}
	})
}

// TestWhoseRoomIsNearest: a request that runs is the more like those of a level the nearer its rung is, those below
// before those above, and those that compute before those that do not.
func TestWhoseRoomIsNearest(t *testing.T) {
	for _, x := range []struct {
		p     phase
		r     rung
		of    level
		order int
	}{
		{computing, 2, 2, 0}, {computing, 1, 2, 1}, {computing, 0, 2, 2}, {computing, 3, 2, rungs + 1}, {computing, 5, 2, rungs + 3},
		{holding, 2, 2, 2*rungs + 2}, {holding, 2, waitsAt(2), 0}, {holding, 5, waitsAt(2), rungs + 3}, {computing, 2, waitsAt(2), 2*rungs + 2},
		{probing, 0, fresh, 0}, {computing, 3, fresh, 0}, {computing, 1, fresh, 2}, {probing, 0, 2, 2},
	} {
		if got := farFrom(&Ticket{queueEntry: queueEntry{phase: x.p, rung: x.r}}, x.of); got != x.order {
			t.Errorf("one in phase %d on rung %d is %d from level %d, want %d", x.p, x.r, got, x.of, x.order)
		}
	}
}

// TestWhatThoseWithinTheirShareUse: what they used lately, but for long requests, is what those who are ahead have to
// leave; of each site where sites are told apart.
func TestWhatThoseWithinTheirShareUse(t *testing.T) {
	for r, size := range sizes {
		for _, site := range []string{"", "a"} {
			for _, ahead := range []bool{false, true} {
				w := siegeOf("x", "beside")
				if site != "" {
					w = twoSites()
				}
				beside := w.at(site, "beside", time.Second) // else all are even again
				if ahead {
					y := w.at(site, "x", sizes[0])
					w.gate.chargeFlow(y, 1)
					w.Leave(w.now, y)
				}
				x := w.at(site, "x", size)
				s := x.site
				w.done(x, size)
				of, all := 0.0, 0.0
				if !ahead && rung(r) <= passRung {
					if all = size.Seconds(); site != "" {
						of = all
					}
				}
				if w.gate.within.sum != all || s.within.sum != of || x.Verdict().Ahead != ahead {
					t.Errorf("of rung %d at site %q, ahead %t: %g and %g of its site are used, want %g, %g",
						r, site, ahead, w.gate.within.sum, s.within.sum, all, of)
				}
				w.done(beside, time.Second)
			}
		}
	}
}
