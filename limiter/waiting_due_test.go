package limiter

import (
	"math"
	"testing"
	"time"
)

// capped is a world in which each key earns a CPU-second per second and has saved one, and of the
// clients each owes so much.
func capped(owes map[string]time.Duration) *world {
	w := newWorld(one(Cap, Budget{CPUs: 1, Burst: second}))
	for client, debt := range owes {
		w.done(w.of(client, second+debt), second+debt)
	}
	return w
}

// TestAllAreToldThatAreDue: of several keys that owe nothing any more at one time everybody goes who may, and
// is told.
func TestAllAreToldThatAreDue(t *testing.T) {
	w := capped(map[string]time.Duration{"a": second, "b": second, "c": 2 * second})
	var waiting []*Ticket
	for _, client := range []string{"a", "a", "b", "b", "c"} {
		waiting = append(waiting, w.of(client, 0))
	}
	if n := w.Held(); n != len(waiting) {
		t.Errorf("%d are held, want %d", n, len(waiting))
	}
	if next := w.Advance(w.now); next != w.now.Add(second) {
		t.Errorf("it wants to be called in %v, want the first debt's second", next.Sub(w.now))
	}
	w.now = w.now.Add(second)
	next := w.Advance(w.now)
	for i, x := range waiting {
		select {
		case <-x.Decided():
			if i == 4 || x.Verdict().Wait != second || x.Verdict().Reason != Debt {
				t.Errorf("request %d goes after %v", i, x.Verdict().Wait)
			}
		default:
			if i < 4 {
				t.Errorf("request %d is not told", i)
			}
		}
	}
	if next != w.now.Add(second) || w.Held() != 1 {
		t.Errorf("then it wants to be called in %v, and holds %d", next.Sub(w.now), w.Held())
	}
}

// TestWhoRunsIsChargedOn: without a gate, too, who costs more than was guessed is charged with that as it runs,
// so that the next one waits.
func TestWhoRunsIsChargedOn(t *testing.T) {
	w := capped(nil)
	x := w.of("a", second/2)
	for _, soFar := range []time.Duration{3 * second, second} { // what was told before may come late
		w.Progress(w.now, x, soFar, true)
	}
	if level := w.levelOf("a"); level != -2 {
		t.Errorf("its key is at %g, want -2", level)
	}
	w.done(x, 2*second)
	if level := w.levelOf("a"); level != -1 {
		t.Errorf("in the end its key is at %g, want -1", level)
	}
	w.Progress(w.now, x, 9*second, true)
	if level := w.levelOf("a"); level != -1 {
		t.Errorf("after the end its key is at %g", level)
	}
}

// TestTheFirstThatIsDueIsWaitedFor, be it a debt that is paid or one at the gate who has waited for too long.
func TestTheFirstThatIsDueIsWaitedFor(t *testing.T) {
	for name, x := range map[string]struct{ debt, since, want time.Duration }{
		"the debt":       {debt: 5 * second, want: 5 * second},
		"one who waits":  {debt: 5 * second, since: 27 * second, want: 3 * second},
		"both":           {debt: 5 * second, since: 25 * second, want: 5 * second},
		"nobody is owed": {since: 27 * second, want: 3 * second},
		"nobody waits":   {},
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
		if n := w.Held(); n != held || w.Crowded() != (x.since > 0) {
			t.Errorf("%s: %d are held, want %d; the gate is crowded: %t", name, n, held, w.Crowded())
		}
		if next := w.Advance(w.now); !next.Equal(want) {
			t.Errorf("%s: it wants to be called in %v, want %v", name, next.Sub(w.now), x.want)
		}
	}
}

// TestSooner: nothing is never sooner than something, be it now.
func TestSooner(t *testing.T) {
	for _, x := range []struct{ a, b, want time.Duration }{{1, 2, 1}, {2, 1, 1}, {0, 1, 0}, {1, 0, 0}, {-1, 0, 0}, {0, -1, 0}, {-1, 3, 3}, {3, -1, 3}, {-1, -1, -1}} {
		if got := sooner(x.a, x.b); got != x.want {
			t.Errorf("of %d and %d the sooner is %d, want %d", x.a, x.b, got, x.want)
		}
	}
}

// TestWhoBeginsToWaitIsSeenTo: whoever calls Advance is told to, and not as nobody waits.
func TestWhoBeginsToWaitIsSeenTo(t *testing.T) {
	told := func(w *world) bool {
		select {
		case <-w.Due():
			return true
		default:
			return false
		}
	}
	w := capped(nil)
	told(w) // of the policy
	if w.done(w.of("a", second), 2*second); told(w) {
		t.Error("nobody waits")
	}
	if w.of("a", 0); !told(w) {
		t.Error("one waits")
	}
}

// TestTheWaitIsThatForTheKeyWhichOwes, and not for others of the request, whether it was let go or refused.
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
		for i, key := range by("a", "a/24") {
			want := []float64{debt.Seconds() / 2, 0}[i] // the first one did not wait
			if r, _ := w.Find(w.now, key); math.Abs(r.Wait-want) > 0.01 {
				t.Errorf("%s: key %d: an average wait of %g s, want %g s", name, i, r.Wait, want)
			}
		}
	}
}
