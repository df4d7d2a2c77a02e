package limiter

import (
	"testing"
	"time"

	"tempomat/internal/testkit"
)

func estimate(guess time.Duration) Estimate { return Estimate{Guess: guess, Sure: true} }

// TestReguessMovesUpAndDown: a waiting request moves to the level of its kind once its cost is known.
func TestReguessMovesUpAndDown(t *testing.T) {
	const ms = time.Millisecond
	for what, c := range map[string]struct {
		from Arrival
		e    Estimate
		want level
	}{
		"shorter":                                {Arrival{Guess: time.Second, Sure: true}, estimate(200 * ms), 2},
		"longer":                                 {Arrival{Guess: time.Second, Sure: true}, estimate(9 * time.Second), 5},
		"estimate hardly changes":                {Arrival{Guess: time.Second, Sure: true}, estimate(900 * ms), 3},
		"turns out to wait most of its time":     {Arrival{Guess: time.Second, Sure: true}, Estimate{Guess: ms, Idle: 30 * time.Second, Sure: true}, waitsAt(4)},
		"turns out to compute":                   {Arrival{Guess: ms, Idle: 30 * time.Second, Sure: true}, estimate(time.Second), 3},
		"cost becomes known":                     {Arrival{Guess: 500 * ms}, estimate(50 * ms), 1},
		"others of its kind were expensive":      {Arrival{Guess: 500 * ms}, Estimate{Guess: 500 * ms, Running: 2 * time.Second}, 4},
		"cost becomes unknown":                   {Arrival{Guess: time.Second, Sure: true}, Estimate{Guess: time.Second}, fresh},
		"cost becomes unknown, likely expensive": {Arrival{Guess: 50 * ms, Sure: true}, Estimate{Guess: 50 * ms, Running: time.Second}, 3},
	} {
		w := siegeOf("hog", "a")
		for range 2 { // requests of every level wait
			w.light("hog")
		}
		w.Arrive(w.now, Arrival{Client: host("hog"), Guess: ms}) // this request is a probe
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

// TestReguessLetsGo: a request that turns out to be shorter than the computing ones starts at once, and the
// next one of its lane becomes the head.
func TestReguessLetsGo(t *testing.T) {
	w := siegeOf("a", "b")
	for range 2 {
		w.heavy("a")
	}
	first, second := w.heavy("b"), w.heavy("b")
	w.Reguess(w.now, first, estimate(20*time.Millisecond))
	w.expectOn(t, "light after all", first, computing, 0)
	if second.heap == nil || second.rank == 0 {
		t.Error("the next one didn't become the head")
	}
	w.Reguess(w.now, second, Estimate{Guess: 20 * time.Millisecond, Idle: 20 * time.Second, Sure: true})
	w.expectPhase(t, "it waits most of the time", second, holding)
	w.Reguess(w.now, second, estimate(time.Second))
	w.expectPhase(t, "Reguess doesn't move running requests", second, holding)
}

// TestReguessJoinsTheEnd: a request that moves joins the end of the other lane.
func TestReguessJoinsTheEnd(t *testing.T) {
	w := siegeOf("hog", "a")
	hogs := []*Ticket{w.light("hog"), w.light("hog")}
	late := w.of("a", time.Second)
	first, second := w.heavy("a"), w.heavy("a")
	w.Reguess(w.now, late, estimate(300*time.Millisecond))
	if late.heap != nil || late.links[inLane].before != second {
		t.Error("the request isn't behind the others of its lane")
	}
	testkit.Same(t, 0, late.applied, "charged although it isn't a head")
	w.done(hogs[0], 0)
	for i, x := range []*Ticket{first, second, late} {
		w.expectPhase(t, "in turn", x, computing)
		if i < 2 {
			w.expectPhase(t, "not the last", late, queued)
		}
		w.done(x, 300*time.Millisecond)
	}
}

// TestReguessBehindTheHead: if a request stays in its lane behind the head, it is charged its latest estimate
// when it becomes the head.
func TestReguessBehindTheHead(t *testing.T) {
	w := siegeOf("hog", "a")
	hogs := []*Ticket{w.light("hog"), w.light("hog")}
	first, second := w.of("a", time.Second), w.of("a", time.Second)
	for _, x := range []*Ticket{first, second} {
		w.Reguess(w.now, x, Estimate{Guess: 1500 * time.Millisecond, Idle: 500 * time.Millisecond, Sure: true})
	}
	if first.guess != 1 || second.guess != 1.5 {
		t.Errorf("the head's guess is %g, and the next one's %g; want 1, which was charged, and 1.5", first.guess, second.guess)
	}
	testkit.Same(t, 0.5, second.likelyIdle, "seconds that it is expected to hold a worker")
	w.done(hogs[0], 0)
	w.expectPhase(t, "the first", first, computing)
	testkit.Same(t, 1.5, second.charged, "the next request's charge as it becomes a head")
}

// TestReguessOfAParkedStranger: as soon as the cost of a parked stranger's request is known, the request may
// use a worker and a free CPU, however many workers strangers hold.
func TestReguessOfAParkedStranger(t *testing.T) {
	w := newWorld(bounded())
	for i := range 5 {
		x := w.poll("stranger " + string(rune('a'+i)))
		w.expectPhase(t, "a stranger that holds a worker", x, holding)
	}
	first := w.Arrive(w.now, Arrival{Client: host("first"), Guess: time.Second, Running: time.Second})
	w.expectPhase(t, "a request that may be expensive", first, computing)
	x := w.Arrive(w.now, Arrival{Client: host("stranger"), Guess: time.Second, Running: time.Second})
	w.expectPhase(t, "another one next to it", x, queued)
	if x.heap != &x.site.parked {
		t.Fatal("the request is not parked")
	}
	w.Reguess(w.now, x, Estimate{Guess: time.Second, Sure: true})
	w.expectPhase(t, "the cost is known", x, computing)
}

// TestAShortUploadWaitsForNoOther: an upload that waits for others of its address starts as soon as it is known
// to be short. Until then, it is no sign that workers lack.
func TestAShortUploadWaitsForNoOther(t *testing.T) {
	p := bounded()
	p.Gate.Workers = 150
	w := newWorld(p)
	var last *Ticket
	for range 9 {
		last = w.Arrive(w.now, Arrival{Client: host("a"), Uploads: true, Guess: 3 * second, Idle: 3 * second})
	}
	w.expectState(t, "the ninth waits", map[string]int{"holding": 8, "queued": 1})
	w.gate.mu.Lock()
	testkit.Same(t, false, w.gate.lacksWorkers(), "it counts as lacking a worker")
	w.gate.mu.Unlock()
	w.Reguess(w.now, last, Estimate{Guess: 20 * time.Millisecond, Idle: second, Sure: true})
	w.Advance(w.now)
	w.expectPhase(t, "the ninth", last, holding)
}
