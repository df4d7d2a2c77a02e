package limiter

import (
	"math"
	"testing"
	"time"
)

// TestClockOfFlows: the clock advances by the given service, divided by the shares of the flows with work. Once
// no flow has work, no flow is ahead.
func TestClockOfFlows(t *testing.T) {
	var k clock
	a, b := flow{share: 0.5}, flow{share: 0.25}
	expect := func(what string, now, active float64) {
		t.Helper()
		if k.systemVirtualTime != now || k.active != active {
			t.Errorf("%s: the clock is at %g, with shares of %g; want %g, %g", what, k.systemVirtualTime, k.active, now, active)
		}
	}
	k.serve(3)
	expect("no flow has work", 0, 0)
	a.enter(&k)
	a.enter(&k)
	expect("one flow has two requests", 0, 0.5)
	b.enter(&k)
	expect("another's", 0, 0.75)
	k.serve(3)
	expect("service", 4, 0.75)
	a.leave(&k, false)
	expect("one of two flows has no work left", 4, 0.75)
	a.reweigh(&k, 0.25)
	expect("a flow's share changes", 4, 0.5)
	a.leave(&k, false)
	expect("the other flow has no work left", 4, 0.25)
	a.reweigh(&k, 0.5)
	expect("the share of a flow without work changes", 4, 0.25)
	if moved := b.charge(&k, 1, 100); moved != 4 || b.virtualTime != 8 {
		t.Errorf("a charge moved the flow by %g to %g", moved, b.virtualTime)
	}
	b.leave(&k, true)
	expect("all flows are idle, so the clock is at the furthest", 8, 0)
	k.furthest = 7
	b.enter(&k)
	b.leave(&k, true)
	expect("the furthest virtual time is behind the clock", 8, 0)
}

// TestChargesOfFlows: an idle flow saves nothing, and any lead beyond the maximum is forgiven.
func TestChargesOfFlows(t *testing.T) {
	for name, x := range map[string]struct{ was, cost, want, moved, ahead float64 }{
		"at the clock":                 {10, 1, 12, 2, 12},
		"behind the clock":             {3, 1, 12, 2, 12},
		"ahead of the clock":           {15, 1, 17, 2, 17},
		"up to the most lead":          {15, 5, 25, 10, 25},
		"beyond the most lead":         {15, 9, 30, 15, 30},
		"already beyond the most lead": {40, 1, 40, 0, 40},
		"charge given back":            {15, -1, 15, 0, 15},
	} {
		k := clock{systemVirtualTime: 10}
		f := flow{virtualTime: x.was, share: 0.5}
		if moved := f.charge(&k, x.cost, 20); moved != x.moved || f.virtualTime != x.want || k.furthest != x.ahead {
			t.Errorf("%s: moved by %g to %g, the furthest is at %g; want %g, %g, %g", name, moved, f.virtualTime, k.furthest, x.moved, x.want, x.ahead)
		}
	}
}

// TestUseFades: use falls by a factor of e in ten seconds.
func TestUseFades(t *testing.T) {
	var u use
	u.add(time.Second, 3)
	u.add(11*time.Second, 2)
	if want := 3/math.E + 2; math.Abs(u.sum-want) > 1e-9 || u.at != 11*time.Second {
		t.Errorf("%g are left at %v, want %g", u.sum, u.at, want)
	}
	if u.add(time.Second, 1); math.Abs(u.sum-3-3/math.E) > 1e-9 || u.at != 11*time.Second {
		t.Errorf("at an earlier time: %g are left at %v", u.sum, u.at)
	}
	if got := u.rate(21 * time.Second); math.Abs(got-(3+3/math.E)/math.E/10) > 1e-9 {
		t.Errorf("the rate is %g", got)
	}
}
