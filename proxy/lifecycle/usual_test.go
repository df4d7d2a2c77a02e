package lifecycle_test

import (
	"slices"
	"testing"
	"time"

	"tempomat/cpuaccount"
	"tempomat/proxy/lifecycle"
)

// TestWhosePagesTellWhatOthersCompute: pages of a known cost tell that others compute, if they
// are of who is known; who could choose what to ask for tells nothing.
func TestWhosePagesTellWhatOthersCompute(t *testing.T) {
	for name, c := range map[string]struct {
		known bool
		ahead bool          // of its share
		cost  time.Duration // of the like of it
		want  bool
	}{
		"of who is known":       {known: true, cost: 100 * time.Millisecond, want: true},
		"of who had more":       {known: true, ahead: true, cost: 100 * time.Millisecond},
		"of a stranger":         {cost: 100 * time.Millisecond},
		"nobody knows the cost": {known: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			poll := r.begin(page(0, "/poll"), false)
			lives := []*lifecycle.Life{poll}
			for range 100 { // it waits, and a client becomes known
				home := r.begin(page(1, "/home"), false)
				r.pass(time.Millisecond)
				home.Settle(r.now, true, false)
				home.Leave(r.now)
				r.pass(time.Second)
				r.gate.Measure(r.now, r.rules.Meter, cpuaccount.Use{Own: -1, Lacked: -1}, slices.Values(lives))
			}
			if c.cost > 0 {
				r.learn("/page", c.cost, 0)
			}
			if c.ahead {
				long := r.begin(page(1, "/home"), false)
				r.pass(time.Minute)
				long.Settle(r.now, true, false)
				long.Leave(r.now)
				r.gate.Measure(r.now, r.rules.Meter, cpuaccount.Use{CPUs: 0.02, Own: -1, Lacked: -1}, slices.Values(lives))
			}
			for i := range 2 {
				client := 1
				if !c.known {
					client = 2 + i
				}
				l := r.begin(page(client, "/page"), false)
				if c.known && l.Verdict.Ahead != c.ahead {
					t.Fatalf("ahead: %t", l.Verdict.Ahead)
				}
				r.pass(time.Second)
				l.Settle(r.now, true, false)
				l.Leave(r.now)
				r.gate.Measure(r.now, r.rules.Meter, cpuaccount.Use{CPUs: 1, Own: -1, Lacked: -1}, slices.Values(lives))
			}
			before := poll.CPUSoFar(r.now)
			r.pass(time.Second)
			if used := poll.CPUSoFar(r.now) - before; used > 100*time.Millisecond != c.want {
				t.Errorf("the poll is charged with %s of a second", used)
			}
		})
	}
}
