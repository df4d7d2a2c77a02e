package limiter

import (
	"testing"
	"time"
)

// clockTo has so much be served that it is the turn of that rank.
func (w *world) clockTo(rank float64) {
	for w.gate.home.clock.systemVirtualTime < rank {
		w.gate.home.clock.serve(0.1)
	}
}

// TestStrangersMakeRoomWhateverIsLonger: a stranger's page waits for that of somebody
// known which is longer and whose turn is before it, as that waits for its own size;
// what computes that is longer still does not matter.
func TestStrangersMakeRoomWhateverIsLonger(t *testing.T) {
	w := siegeOf("long", "ahead", "b", "a")
	w.Arrive(w.now, Arrival{Client: host("b"), Guess: time.Second, Idle: time.Minute, Sure: true}) // else all are even again
	w.expectOn(t, "a longer one", w.of("long", sizes[5]), computing, 5)
	w.outrun("ahead")
	hogs := []*Ticket{w.of("ahead", sizes[4]), w.of("ahead", sizes[4])}
	w.expectRun(t, "those of its size", hogs, 2)
	a := w.of("a", sizes[4])
	w.expectPhase(t, "who is within its share", a, queued)
	early := w.of("stranger", sizes[3])
	w.expectPhase(t, "a stranger whose turn is before that", early, computing)
	w.done(early, sizes[3])

	w.clockTo(a.rank - 1)
	late := w.of("another stranger", sizes[3])
	w.expectPhase(t, "a stranger whose turn is after it", late, queued)
	for _, x := range hogs {
		w.done(x, sizes[4])
	}
	w.expectPhase(t, "who waited", a, computing)
	w.expectPhase(t, "the stranger, then", late, computing)
}

// TestLightOnesMakeRoomWhateverIsLonger: the light ones of those who are ahead of their
// share wait for a longer one whose turn has come and that waits for light ones; what
// computes that is longer still does not matter.
func TestLightOnesMakeRoomWhateverIsLonger(t *testing.T) {
	w := siegeOf("long", "x", "y", "z", "a")
	w.expectOn(t, "a longer one", w.of("long", sizes[5]), computing, 5)
	lights := []*Ticket{w.light("x"), w.light("y")}
	w.expectRun(t, "light ones", lights, 2)
	a := w.of("a", sizes[4])
	w.expectPhase(t, "it waits for them", a, queued)
	w.outrun("z")
	third := w.light("z")
	w.expectPhase(t, "one more light one, before its turn", third, computing)
	w.done(third, 0)

	w.clockTo(a.rank)
	w.outrun("z")
	third = w.light("z")
	w.expectPhase(t, "one more, as its turn has come", third, queued)
	for _, x := range lights {
		w.done(x, 0)
	}
	w.expectPhase(t, "who waited", a, computing)
	w.expectPhase(t, "the light one, then", third, computing)
}
