package limiter

import (
	"fmt"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// siegeOf returns a gate in mode fair for two CPUs, which knows the given clients.
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

// of sends a request that is known to take the given time.
func (w *world) of(client string, guess time.Duration) *Ticket {
	return w.Arrive(w.now, Arrival{Client: host(client), Guess: guess, Sure: true})
}

// another sends a request of a new client that counts as known.
func (w *world) another(guess time.Duration) *Ticket {
	w.seq++
	return w.Arrive(w.now, Arrival{Client: host(fmt.Sprint("client ", w.seq)), Guess: guess, Sure: true, Proven: true})
}

// sizes has one size for each rung, well within it.
var sizes = [rungs]time.Duration{
	20 * time.Millisecond, 80 * time.Millisecond, 300 * time.Millisecond, time.Second, 4 * time.Second, 20 * time.Second, 80 * time.Second,
}

func (w *world) expectPhase(t *testing.T, what string, x *Ticket, want phase) {
	t.Helper()
	testkit.Same(t, want, w.phaseOf(x), "%s: phase", what)
}

// expectOn checks in which phase and on which rung a request is.
func (w *world) expectOn(t *testing.T, what string, x *Ticket, want phase, on rung) {
	t.Helper()
	if p, r := w.phaseOf(x), x.rung; p != want || r != on {
		t.Errorf("%s: in phase %d on rung %d, want %d on %d", what, p, r, want, on)
	}
}

// expectRun checks how many of the given requests run.
func (w *world) expectRun(t *testing.T, what string, xs []*Ticket, want int) {
	t.Helper()
	n := 0
	for _, x := range xs {
		if w.phaseOf(x).running() {
			n++
		}
	}
	testkit.Same(t, want, n, "%s: running of %d", what, len(xs))
}
