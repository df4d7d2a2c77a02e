package limiter

import (
	"testing"
	"time"
)

func estimate(guess time.Duration) Estimate { return Estimate{Guess: guess, Sure: true} }

// TestReguessMovesUpAndDown: whoever waits is moved to where its like belongs, once
// that is known.
func TestReguessMovesUpAndDown(t *testing.T) {
	const ms = time.Millisecond
	for what, c := range map[string]struct {
		from Arrival
		e    Estimate
		want level
	}{
		"shorter":                 {Arrival{Guess: time.Second, Sure: true}, estimate(200 * ms), 2},
		"longer":                  {Arrival{Guess: time.Second, Sure: true}, estimate(9 * time.Second), 5},
		"as it was":               {Arrival{Guess: time.Second, Sure: true}, estimate(900 * ms), 3},
		"it waits most of it":     {Arrival{Guess: time.Second, Sure: true}, Estimate{Guess: ms, Idle: 30 * time.Second, Sure: true}, waitsAt(4)},
		"it computes after all":   {Arrival{Guess: ms, Idle: 30 * time.Second, Sure: true}, estimate(time.Second), 3},
		"known at last":           {Arrival{Guess: 500 * ms}, estimate(50 * ms), 1},
		"its like was dear":       {Arrival{Guess: 500 * ms}, Estimate{Guess: 500 * ms, Running: 2 * time.Second}, 4},
		"not so sure any more":    {Arrival{Guess: time.Second, Sure: true}, Estimate{Guess: time.Second}, fresh},
		"unsure, and likely dear": {Arrival{Guess: 50 * ms, Sure: true}, Estimate{Guess: 50 * ms, Running: time.Second}, 3},
	} {
		w := siegeOf("hog", "a")
		for range 2 { // of any level, all wait
			w.light("hog")
		}
		w.Arrive(w.now, Arrival{Client: host("hog"), Guess: ms}) // is tried
		for range 16 {
			w.Arrive(w.now, Arrival{Client: host("hog"), Guess: ms, Idle: 2 * time.Second, Sure: true})
		}
		c.from.Client = host("a")
		x := w.Arrive(w.now, c.from)
		w.expectPhase(t, what+": before", x, queued)
		w.Reguess(w.now, x, c.e)
		w.expectPhase(t, what+": after", x, queued)
		if x.level != c.want || x.lane.first != x || x.heap == nil {
			t.Errorf("%s: at level %d, want %d, head of its lane", what, x.level, c.want)
		}
		if x.guess != c.e.Guess.Seconds() && c.want != 3 {
			t.Errorf("%s: a guess of %g s", what, x.guess)
		}
	}
}

// TestReguessLetsGo: who turns out shorter than those that compute goes at once, and
// the next of its lane becomes the head.
func TestReguessLetsGo(t *testing.T) {
	w := siegeOf("a", "b")
	for range 2 {
		w.heavy("a")
	}
	first, second := w.heavy("b"), w.heavy("b")
	w.Reguess(w.now, first, estimate(20*time.Millisecond))
	w.expectOn(t, "light after all", first, computing, 0)
	if second.heap == nil || second.rank == 0 {
		t.Error("the next one did not become the head")
	}
	w.Reguess(w.now, second, Estimate{Guess: 20 * time.Millisecond, Idle: 20 * time.Second, Sure: true})
	w.expectPhase(t, "it waits most of the time", second, holding)
	w.Reguess(w.now, second, estimate(time.Second))
	w.expectPhase(t, "what runs is moved by what it does", second, holding)
}

// TestReguessJoinsTheEnd of another lane: there, too, first come is first served.
func TestReguessJoinsTheEnd(t *testing.T) {
	w := siegeOf("hog", "a")
	hogs := []*Ticket{w.light("hog"), w.light("hog")}
	late := w.of("a", time.Second)
	first, second := w.heavy("a"), w.heavy("a")
	w.Reguess(w.now, late, estimate(300*time.Millisecond))
	if late.heap != nil || late.links[inLane].before != second {
		t.Error("it is not behind the others of its lane")
	}
	if moved := late.applied; moved != 0 {
		t.Errorf("it is charged %g though it is no head", moved)
	}
	w.done(hogs[0], 0)
	for i, x := range []*Ticket{first, second, late} {
		w.expectPhase(t, "in turn", x, computing)
		if i < 2 {
			w.expectPhase(t, "not the last", late, queued)
		}
		w.done(x, 300*time.Millisecond)
	}
}

// TestReguessOfWhoStandsBehind: one that stays where it waits, and is no head yet, is
// charged by the latest estimate once it is.
func TestReguessOfWhoStandsBehind(t *testing.T) {
	w := siegeOf("hog", "a")
	hogs := []*Ticket{w.light("hog"), w.light("hog")}
	first, second := w.of("a", time.Second), w.of("a", time.Second)
	for _, x := range []*Ticket{first, second} {
		w.Reguess(w.now, x, Estimate{Guess: 1500 * time.Millisecond, Idle: 500 * time.Millisecond, Sure: true})
	}
	if first.guess != 1 || second.guess != 1.5 {
		t.Errorf("the head's guess is %g, the next one's %g; want 1, with which it was charged, and 1.5", first.guess, second.guess)
	}
	if second.likelyIdle != 0.5 {
		t.Errorf("it is taken to hold a worker for %g s, want 0.5", second.likelyIdle)
	}
	w.done(hogs[0], 0)
	w.expectPhase(t, "the first", first, computing)
	if second.charged != 1.5 {
		t.Errorf("the next one is charged %g as it becomes the head, want 1.5", second.charged)
	}
}

// TestReguessOfAParkedStranger: once it is sure that it computes as long as it was thought to, it has a worker for a CPU,
// whatever strangers hold.
func TestReguessOfAParkedStranger(t *testing.T) {
	w := newWorld(bounded())
	for i := range 5 {
		x := w.poll("stranger " + string(rune('a'+i)))
		w.expectPhase(t, "a stranger that holds a worker", x, holding)
	}
	first := w.Arrive(w.now, Arrival{Client: host("first"), Guess: time.Second, Running: time.Second})
	w.expectPhase(t, "one that may be dear", first, computing)
	x := w.Arrive(w.now, Arrival{Client: host("stranger"), Guess: time.Second, Running: time.Second})
	w.expectPhase(t, "another one beside it", x, queued)
	if x.heap != &x.site.parked {
		t.Fatal("it is not parked")
	}
	w.Reguess(w.now, x, Estimate{Guess: time.Second, Sure: true})
	w.expectPhase(t, "it is sure", x, computing)
}
