package limiter

import (
	"testing"
	"time"
)

// TestWorkersAreConfigured: a number that is configured counts at once; none leaves what was learnt.
func TestWorkersAreConfigured(t *testing.T) {
	learnt := workers{n: 20, source: "prompt answers", refuted: true, late: 3}
	fixed := workers{n: 7, most: 9, source: "late answers", refuted: true, late: 3}
	usual := workers{n: 16, source: "what is usual; nothing was learnt yet", late: 3}
	for name, x := range map[string]struct {
		was        workers
		configured int
		want       workers
	}{
		"none, at first":     {workers{late: 3}, 0, usual},
		"none, and some":     {learnt, 0, learnt},
		"none any more":      {fixed, 0, usual},
		"a number, at first": {workers{}, 9, workers{n: 9, most: 9, source: "configuration"}},
		"another number":     {fixed, 5, workers{n: 5, most: 5, source: "configuration", late: 3}},
		"the same number":    {fixed, 9, fixed},
	} {
		got := x.was
		if got.configure(x.configured, 16); got != x.want {
			t.Errorf("%s: %+v, want %+v", name, got, x.want)
		}
	}
	for cpus, want := range map[float64]int{0.5: 16, 2: 16, 2.1: 17, 4: 32} {
		if got := usualWorkers(cpus); got != want {
			t.Errorf("%g CPUs usually have %d workers, want %d", cpus, got, want)
		}
	}
}

// TestRefutedWorkersAreTriedLater: after 5 s, after twice as long each time, up to ten minutes; and never fewer
// than the CPUs take, and one.
func TestRefutedWorkersAreTriedLater(t *testing.T) {
	g := newGate(nil)
	g.limits.cpus, g.limits.least = 2, 2
	g.setWorkers(40, "a test")
	at := time.Hour
	for i, seconds := range []int{5, 10, 20, 40, 80, 160, 320, 600, 600} {
		want := time.Duration(seconds) * time.Second
		g.refute(at, 30-i, "this")
		if w := g.workers; w.n != 30-i || w.source != "this" || w.pause != want || w.again != at+want || !w.refuted {
			t.Errorf("refuted %d times: %+v", i+1, w)
		}
		for after, more := range map[time.Duration]int{want - 1: 0, want: max(1, (30-i)/8)} {
			if got := g.mayTry(at + after); got != more {
				t.Errorf("%v after that %d more may be tried, want %d", after, got, more)
			}
		}
	}
	if g.refute(at, 25, "that"); g.workers.n != 22 || g.workers.source != "this" {
		t.Errorf("more than are known are refuted: %+v", g.workers)
	}
	if g.refute(at, 1, "that"); g.workers.n != 3 || g.workers.source != "that" {
		t.Errorf("so few: %+v", g.workers)
	}
	if g.setWorkers(4, "more"); g.workers.pause != 0 {
		t.Errorf("after more were proved, the next pause is to follow %v", g.workers.pause)
	}
	g.workers.pause = 7
	if g.setWorkers(4, "as many"); g.workers.pause != 7 {
		t.Error("as many as before prove nothing")
	}
}

// TestHowManyMoreAreTried: an eighth, never more than are configured, nor than were found while that is trusted.
func TestHowManyMoreAreTried(t *testing.T) {
	for name, x := range map[string]struct {
		w    workers
		want int
	}{
		"of few":                   {workers{n: 7}, 1},
		"of many":                  {workers{n: 40}, 5},
		"as many as configured":    {workers{n: 16, most: 16}, 0},
		"fewer than configured":    {workers{n: 15, most: 16}, 1},
		"refuted lately":           {workers{n: 16, refuted: true, again: 11}, 0},
		"refuted a while ago":      {workers{n: 16, refuted: true, again: 10}, 2},
		"as many as were found":    {workers{n: 16, found: 16, trusted: 11}, 0},
		"fewer than were found":    {workers{n: 40, found: 42, trusted: 11}, 2},
		"more than were found":     {workers{n: 40, found: 30, trusted: 11}, 0},
		"found, but that was once": {workers{n: 40, found: 30, trusted: 10}, 5},
	} {
		g := newGate(nil)
		if g.workers = x.w; g.mayTry(10) != x.want {
			t.Errorf("%s: %d more, want %d", name, g.mayTry(10), x.want)
		}
	}
}
