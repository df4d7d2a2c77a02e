package limiter

import (
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
