package limiter

import (
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestWhereACapCounts: a class's own cap applies in every mode in which debt has an effect. In mode cap, every
// class is capped.
func TestWhereACapCounts(t *testing.T) {
	for name, x := range map[string]struct {
		mode Mode
		own  bool // the class itself is capped
		want bool
	}{
		"mode cap":                  {mode: Cap, want: true},
		"mode fair":                 {mode: Fair},
		"mode fair, capped class":   {mode: Fair, own: true, want: true},
		"cooperative, capped class": {mode: Cooperative, own: true, want: true},
		"observed":                  {mode: Observe, own: true},
	} {
		p := one(x.mode, Budget{CPUs: 1, Cap: x.own})
		if c := compile(p, 1); c.terms[0].Cap != x.want || c.terms[0].Hold != (x.mode == Cooperative && !x.want) {
			t.Errorf("%s: %+v", name, *c.terms[0])
		}
	}
}

// TestAnAddressEarnsForItsClients: an address earns its share times the number of clients behind it, which
// counts up to eight. If that number isn't given, the address earns its share once.
func TestAnAddressEarnsForItsClients(t *testing.T) {
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
		testkit.Same(t, step.want, w.balance(w.now, networks("net")[0]).Rate, "request %d: the address earns", i)
	}
}

// TestAdvanceIsRequested: the limiter requests an Advance when the first request begins to wait at the gate, and not
// for requests that start while it waits.
func TestAdvanceIsRequested(t *testing.T) {
	w := siegeOf("a", "b")
	testkit.Ready(w.Due())                                                 // requested by the new policy
	for i, want := range []bool{false, false, true, false, false, false} { // the first two run, and the fourth, which is short
		if i == 3 {
			w.light("b")
		} else {
			w.heavy("a")
		}
		testkit.Same(t, want, testkit.Ready(w.Due()), "request %d: an Advance is requested", i)
	}
}

// TestKeysWithoutAccount: in every mode, a request of a client without an account starts at once, without the
// gate, and leaves nothing behind.
func TestKeysWithoutAccount(t *testing.T) {
	for _, mode := range []Mode{Observe, Cooperative, Cap, Fair} {
		for name, client := range map[string]Key{"no client": {}, "of no class": {Class: "invented", ID: "a"}} {
			w := newWorld(one(mode, Budget{CPUs: 1}))
			for range 3 {
				x := w.Arrive(w.now, Arrival{Client: client, Guess: time.Hour, Sure: true})
				if !testkit.Ready(x.Decided()) {
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

// TestStandingEndsWithTheGate: a reload from fair to a mode without a gate removes a client's standing, and
// the number of clients behind its address.
func TestStandingEndsWithTheGate(t *testing.T) {
	for _, m := range []Mode{Cap, Cooperative} {
		w := newWorld(one(Fair, Budget{CPUs: 0.1, Burst: second}))
		w.Leave(w.now, w.Arrive(w.now, Arrival{
			Client: Key{Class: "slash32", ID: "session"}, Within: host("office"), Session: true, Standing: 8, ClientsBehind: 8,
		}))
		w.SetPolicy(w.now, one(m, Budget{CPUs: 0.1, Burst: second}))
		for _, id := range []string{"session", "office"} {
			if x := w.balance(w.now, host(id)); x.Rate != 0.1 || x.Burst != 1 {
				t.Errorf("in %v the %s earns %g, and saves %g; want 0.1 and 1", m, id, x.Rate, x.Burst)
			}
		}
	}
}
