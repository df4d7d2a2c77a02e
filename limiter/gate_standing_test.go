package limiter

import (
	"math"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestStandingCounts checks that a client with three times the standing gets three times as much CPU time.
func TestStandingCounts(t *testing.T) {
	w := siegeOf("a", "b")
	used := map[string]float64{}
	for client, standing := range map[string]float64{"a": 1, "b": 3} {
		w.wants(client, 4, Arrival{Client: host(client), Guess: 400 * time.Millisecond, Sure: true, Standing: standing}, used)
	}
	w.run(60 * time.Second)
	if got := used["b"] / used["a"]; math.Abs(got-3) > 0.15 {
		t.Errorf("three times the standing got %.2f times as much", got)
	}
	for given, want := range map[float64]float64{0: 1, 0.1: 0.5, 0.6: 0.6, 7: 7, 100: 8} {
		testkit.Same(t, want, w.policy.Load().standing(given), "the factor for a standing of %g", given)
	}
}

// TestKnownByComing: a client that has received a few answers becomes known when it comes back after a while,
// and is then remembered.
func TestKnownByComing(t *testing.T) {
	w := newWorld(fair())
	for range strangerAnswers {
		w.done(w.light("a"), 20*time.Millisecond)
	}
	if x := w.light("b"); x.Verdict().Known || x.Known() || !x.Stranger() {
		t.Error("a stranger is known")
	}
	w.run(strangerFor)
	if x := w.light("a"); !x.Verdict().Known || !x.Known() || x.Stranger() {
		t.Error("the client is a stranger")
	}
	if !w.Known().Has(w.elapsed(), "a") || w.Known().Has(w.elapsed(), "b") {
		t.Error("want client a remembered, and client b not")
	}
}
