package limiter

import (
	"fmt"
	"testing"
	"time"
)

// siegeOf is a fair gate whose clients are known, for two CPUs.
func siegeOf(clients ...string) *world {
	w := newWorld(fair())
	w.acquaint(clients...)
	return w
}

func (w *world) heavy(client string) *Ticket {
	return w.Arrive(w.now, Arrival{Client: host(client), Guess: 400 * time.Millisecond, Sure: true})
}

func (w *world) light(client string) *Ticket {
	return w.Arrive(w.now, Arrival{Client: host(client), Guess: 20 * time.Millisecond, Sure: true})
}

func (w *world) done(t *Ticket, cost time.Duration) {
	w.Settle(w.now, t, cost)
	w.Leave(w.now, t)
}

// of asks for what is known to take so long.
func (w *world) of(client string, guess time.Duration) *Ticket {
	return w.Arrive(w.now, Arrival{Client: host(client), Guess: guess, Sure: true})
}

// another is a known client that has asked for nothing so far.
func (w *world) another(guess time.Duration) *Ticket {
	w.seq++
	return w.Arrive(w.now, Arrival{Client: host(fmt.Sprint("client ", w.seq)), Guess: guess, Sure: true, Proven: true})
}

// sizes are one for each rung, well within it.
var sizes = [rungs]time.Duration{
	20 * time.Millisecond, 80 * time.Millisecond, 300 * time.Millisecond, time.Second, 4 * time.Second, 20 * time.Second, 80 * time.Second,
}

func (w *world) expectPhase(t *testing.T, what string, x *Ticket, want phase) {
	t.Helper()
	if got := w.phaseOf(x); got != want {
		t.Errorf("%s: in phase %d, want %d", what, got, want)
	}
}

// expectOn checks where a request runs.
func (w *world) expectOn(t *testing.T, what string, x *Ticket, want phase, on rung) {
	t.Helper()
	if p, r := w.phaseOf(x), x.rung; p != want || r != on {
		t.Errorf("%s: in phase %d on rung %d, want %d on %d", what, p, r, want, on)
	}
}

// expectRun checks how many of some run.
func (w *world) expectRun(t *testing.T, what string, xs []*Ticket, want int) {
	t.Helper()
	n := 0
	for _, x := range xs {
		if w.phaseOf(x).running() {
			n++
		}
	}
	if n != want {
		t.Errorf("%s: %d of %d run, want %d", what, n, len(xs), want)
	}
}
