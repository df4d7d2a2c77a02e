package limiter

import (
	"math"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// capped returns a world in which each key earns a CPU-second per second and has saved one. Each client owes
// the given amount.
func capped(owes map[string]time.Duration) *world {
	w := newWorld(one(Cap, Budget{CPUs: 1, Burst: second}))
	for client, debt := range owes {
		w.done(w.of(client, second+debt), second+debt)
	}
	return w
}

// TestAllDueRequestsAreAnnounced: if several keys' debts are paid at the same time, every request that may
// start does so, and its owner is notified.
func TestAllDueRequestsAreAnnounced(t *testing.T) {
	w := capped(map[string]time.Duration{"a": second, "b": second, "c": 2 * second})
	var waiting []*Ticket
	for _, client := range []string{"a", "a", "b", "b", "c"} {
		waiting = append(waiting, w.of(client, 0))
	}
	testkit.Same(t, len(waiting), w.Held(), "held")
	testkit.Same(t, w.now.Add(second), w.Advance(w.now), "Advance asks to be called when the first debt is paid, after a second")
	w.now = w.now.Add(second)
	next := w.Advance(w.now)
	for i, x := range waiting {
		if testkit.Ready(x.Decided()) {
			if i == 4 || x.Verdict().Wait != second || x.Verdict().Reason != Debt {
				t.Errorf("request %d starts after %v", i, x.Verdict().Wait)
			}
		} else if i < 4 {
			t.Errorf("request %d isn't decided", i)
		}
	}
	if next != w.now.Add(second) || w.Held() != 1 {
		t.Errorf("Advance then asks to be called in %v, and %d requests are held", next.Sub(w.now), w.Held())
	}
}

// TestTheFirstThatIsDueIsWaitedFor: Advance asks to be called at the earlier of two times: when a debt is paid,
// or when the longest wait at the gate ends.
func TestTheFirstThatIsDueIsWaitedFor(t *testing.T) {
	for name, x := range map[string]struct{ debt, since, want time.Duration }{
		"the debt":              {debt: 5 * second, want: 5 * second},
		"a request at the gate": {debt: 5 * second, since: 27 * second, want: 3 * second},
		"both":                  {debt: 5 * second, since: 25 * second, want: 5 * second},
		"no debt":               {since: 27 * second, want: 3 * second},
		"no request waits":      {},
	} {
		p := fair()
		p.Classes = append(p.Classes, ClassInfo{"slash24", Budget{CPUs: 1, Cap: true}})
		w := newWorld(p)
		w.acquaint("a")
		held := 0
		if x.want > 0 && (x.since > 0 || x.debt == 0) {
			for range 3 {
				w.heavy("a")
			}
			held++
			w.now = w.now.Add(x.since)
		}
		if x.debt > 0 {
			owes := Arrival{Client: host("b"), Others: networks("net/24"), Guess: time.Millisecond, Proven: true}
			w.done(w.Arrive(w.now, owes), x.debt)
			w.Arrive(w.now, owes)
			held++
		}
		want := time.Time{}
		if x.want > 0 {
			want = w.now.Add(x.want)
		}
		testkit.Same(t, held, w.Held(), "%s: held", name)
		if next := w.Advance(w.now); !next.Equal(want) {
			t.Errorf("%s: Advance asks to be called in %v, want %v", name, next.Sub(w.now), x.want)
		}
	}
}

// TestSooner: "nothing to wait for" is never sooner than a time, even if that time is now.
func TestSooner(t *testing.T) {
	for _, x := range []struct{ a, b, want time.Duration }{{1, 2, 1}, {2, 1, 1}, {0, 1, 0}, {1, 0, 0}, {-1, 0, 0}, {0, -1, 0}, {-1, 3, 3}, {3, -1, 3}, {-1, -1, -1}} {
		testkit.Same(t, x.want, sooner(x.a, x.b), "the sooner of %d and %d", x.a, x.b)
	}
}

// TestFirstWaitRequestsAdvance: when a request begins to wait, the limiter requests an Advance. While na
// request waits, but no Advance was requested, it doesn't.
func TestFirstWaitRequestsAdvance(t *testing.T) {
	w := capped(nil)
	testkit.Ready(w.Due()) // the request for an Advance from the new policy
	if w.done(w.of("a", second), 2*second); testkit.Ready(w.Due()) {
		t.Error("an Advance was requested, but no request waits")
	}
	if w.of("a", 0); !testkit.Ready(w.Due()) {
		t.Error("one waits")
	}
}

// TestTheWaitIsThatForTheKeyWhichOwes: the wait counts for the key in debt and for no other key, whether the
// request was started or refused.
func TestTheWaitIsThatForTheKeyWhichOwes(t *testing.T) {
	for name, debt := range map[string]time.Duration{"it goes": 20 * second, "it is refused": 40 * second} {
		p := one(Cap, Budget{CPUs: 1})
		p.Classes = append(p.Classes, ClassInfo{"slash24", Budget{CPUs: 9, Burst: time.Hour}})
		w := newWorld(p)
		a := Arrival{Client: host("a"), Others: networks("a/24"), Guess: second}
		w.run(time.Minute)
		w.done(w.Arrive(w.now, a), debt)
		x := w.Arrive(w.now, a)
		if w.run(debt); !x.Verdict().Refused() {
			w.Settle(w.now, x, second)
		}
		w.Leave(w.now, x)
		for i, key := range []Key{host("a"), networks("a/24")[0]} {
			want := []float64{debt.Seconds() / 2, 0}[i] // the first one didn't wait
			if r, _ := w.Find(w.now, key); math.Abs(r.Wait-want) > 0.01 {
				t.Errorf("%s: key %d: an average wait of %g s, want %g s", name, i, r.Wait, want)
			}
		}
	}
}
