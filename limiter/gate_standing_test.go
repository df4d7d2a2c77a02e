package limiter

import (
	"math"
	"testing"
	"time"
)

// TestStandingCounts checks that who has a better standing gets more, by as much.
func TestStandingCounts(t *testing.T) {
	w := siegeOf("a", "b")
	used := map[string]float64{}
	const page = 400 * time.Millisecond
	for client, standing := range map[string]float64{"a": 1, "b": 3} {
		var next func()
		next = func() {
			w.ask(Arrival{Client: host(client), Guess: page, Sure: true, Standing: standing}, func(x *Ticket) {
				w.after(page, func() {
					used[client] += page.Seconds()
					w.done(x, page)
					next()
				})
			})
		}
		for range 4 {
			next()
		}
	}
	w.run(60 * time.Second)
	if got := used["b"] / used["a"]; math.Abs(got-3) > 0.15 {
		t.Errorf("three times the standing got %.2f times as much", got)
	}
}

// TestKnownByComing: who has been answered a few times is known as soon as it comes
// after a while, and remembered.
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
		t.Error("it is a stranger")
	}
	if !w.Known().Has(w.elapsed(), "a") || w.Known().Has(w.elapsed(), "b") {
		t.Error("of a and b, a is to be remembered")
	}
}

// TestKnownAsLongAsItComes: the memory of a client that stays does not end.
func TestKnownAsLongAsItComes(t *testing.T) {
	w := siegeOf("a")
	for range 60 {
		w.run(time.Hour)
		w.done(w.light("a"), 20*time.Millisecond)
	}
	if !w.Known().Has(w.elapsed(), "a") {
		t.Error("it was forgotten")
	}
}

// TestKnownAgain checks that a client that was known is not a stranger when its
// bucket has been forgotten, as by a restart.
func TestKnownAgain(t *testing.T) {
	w := siegeOf("a")
	saved, err := w.Known().AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	again := newWorld(fair())
	if err := again.Known().UnmarshalBinary(saved); err != nil {
		t.Fatal(err)
	}
	if x := again.heavy("a"); !x.Verdict().Known {
		t.Error("it is a stranger")
	}
	if x := again.heavy("b"); x.Verdict().Known {
		t.Error("a stranger is known")
	}
}
