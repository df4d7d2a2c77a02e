package limiter

import (
	"testing"
	"time"
)

// TestWhereACapCounts: a class's own counts in every mode, unless nobody's debt means anything; in mode cap every class has
// one.
func TestWhereACapCounts(t *testing.T) {
	for name, x := range map[string]struct {
		mode Mode
		own  bool // the class's
		want bool
	}{
		"mode cap":             {mode: Cap, want: true},
		"mode fair":            {mode: Fair},
		"mode fair, its own":   {mode: Fair, own: true, want: true},
		"cooperative, its own": {mode: Cooperative, own: true, want: true},
		"observed":             {mode: Observe, own: true},
	} {
		p := one(x.mode, Budget{CPUs: 1, Cap: x.own})
		if c := compile(p, 1); c.terms[0].Cap != x.want || c.terms[0].Hold != (x.mode == Cooperative && !x.want) {
			t.Errorf("%s: %+v", name, *c.terms[0])
		}
	}
}

// TestAnAddressEarnsForThoseBehindIt: as many times its share as clients are said to be behind it, at most eight; who says
// nothing says one.
func TestAnAddressEarnsForThoseBehindIt(t *testing.T) {
	p := fair()
	p.Classes = append(p.Classes, ClassInfo{"slash24", Budget{CPUs: 0.5, Burst: second}})
	w := newWorld(p)
	for i, step := range []struct {
		session, within bool
		behind, want    float64
	}{{true, true, 0, 0.5}, {true, true, 1, 0.5}, {true, true, 4, 2}, {true, true, 0, 0.5}, {true, true, 4, 2}, {true, true, 1, 0.5}, {true, true, 9, 4}, {false, false, 2, 4}} {
		a := Arrival{Client: host("a"), Guess: time.Millisecond, Sure: true, Session: step.session, ClientsBehind: step.behind}
		if net := networks("net"); step.within {
			a.Within = net[0]
		} else {
			a.Others = net
		}
		w.done(w.Arrive(w.now, a), 0)
		if b, _ := w.Balance(w.now, networks("net")[0]); b.Rate != step.want {
			t.Errorf("request %d: its address earns %g, want %g", i, b.Rate, step.want)
		}
	}
}

// TestAnAdvanceIsAskedFor: as somebody begins to wait at the gate where nobody did.
func TestAnAdvanceIsAskedFor(t *testing.T) {
	w := siegeOf("a", "b")
	for len(w.Due()) > 0 {
		<-w.Due()
	}
	for i, want := range []int{0, 0, 1, 0, 0} { // two run
		w.heavy("a")
		if got := len(w.Due()); got != want {
			t.Errorf("request %d: an Advance is asked for: %d, want %d", i, got, want)
		}
		for range want {
			<-w.Due()
		}
	}
}

// TestWhoHasNoAccount goes at once in every mode, past the gate, and leaves nothing.
func TestWhoHasNoAccount(t *testing.T) {
	for _, mode := range []Mode{Observe, Cooperative, Cap, Fair} {
		for name, client := range map[string]Key{"nobody": {}, "of no class": {Class: "invented", ID: "a"}} {
			w := newWorld(one(mode, Budget{CPUs: 1}))
			for range 3 {
				x := w.Arrive(w.now, Arrival{Client: client, Guess: time.Hour, Sure: true})
				select {
				case <-x.Decided():
				default:
					t.Fatalf("mode %v, %s: it waits", mode, name)
				}
				if v := x.Verdict(); v != (Verdict{}) || w.GateState().Busy != 0 || w.Keys() != 0 {
					t.Errorf("mode %v, %s: %+v; %d keys", mode, name, v, w.Keys())
				}
				w.Progress(w.now, x, 2*time.Hour, true)
				w.done(x, 3*time.Hour)
			}
		}
	}
}

// TestStandingEndsWithTheGate: after a reload from fair to a mode in which it counts for nothing, a client's
// standing, and the clients once behind its address, leave it what all have.
func TestStandingEndsWithTheGate(t *testing.T) {
	for _, m := range []Mode{Cap, Cooperative} {
		w := newWorld(one(Fair, Budget{CPUs: 0.1, Burst: second}))
		w.Leave(w.now, w.Arrive(w.now, Arrival{
			Client: Key{Class: "slash32", ID: "session"}, Within: host("office"), Session: true, Standing: 8, ClientsBehind: 8,
		}))
		w.SetPolicy(w.now, one(m, Budget{CPUs: 0.1, Burst: second}))
		for _, id := range []string{"session", "office"} {
			if x, _ := w.Balance(w.now, host(id)); x.Rate != 0.1 || x.Burst != 1 {
				t.Errorf("in %v the %s earns %g, and saves %g; want 0.1 and 1", m, id, x.Rate, x.Burst)
			}
		}
	}
}
