package limiter

import (
	"fmt"
	"testing"
	"time"
)

// TestWhoWaitsToBeTriedIsTried: what nobody knows, and may not hold a worker as a dear
// one, is tried once the one before it is done, or the pause is over.
func TestWhoWaitsToBeTriedIsTried(t *testing.T) {
	for _, dear := range []bool{false, true} {
		w := newWorld(bounded())
		w.acquaint("a", "b")
		for range 9 {
			w.poll("a") // as many as it may hold
		}
		fresh := func(client string) *Ticket {
			return w.Arrive(w.now, Arrival{Client: host(client), Guess: 10 * time.Millisecond})
		}
		x, y := fresh("b"), fresh("a")
		w.expectPhase(t, "the first", x, probing)
		w.expectPhase(t, "the second", y, queued)
		if dear {
			w.Progress(w.now, x, 200*time.Millisecond, true)
			w.run(probePause)
		} else {
			w.done(x, 10*time.Millisecond)
		}
		w.expectPhase(t, fmt.Sprint("the first was dear: ", dear, ", the second"), y, probing)
	}
}

// TestParkedStrangersComeBackInOrder: strangers whose keys held too many workers are in
// the order of the others when they come back.
func TestParkedStrangersComeBackInOrder(t *testing.T) {
	w := newWorld(bounded())
	w.acquaint("hog")
	hogs := []*Ticket{w.poll("hog"), w.poll("hog"), w.poll("hog"), w.poll("hog")}
	var polls []*Ticket
	for i := range 5 { // the strangers' part of the workers
		polls = append(polls, w.poll(fmt.Sprint("stranger ", i)))
	}
	first := w.poll("first") // parked
	w.run(500 * time.Millisecond)
	second := w.poll("second")
	w.run(600 * time.Millisecond) // the first has lost patience, the second has not
	third := w.poll("third")
	w.done(polls[0], time.Second)
	w.expectPhase(t, "the newest", third, holding)
	w.done(polls[1], time.Second)
	w.expectPhase(t, "the one before", second, holding)
	w.expectPhase(t, "who lost patience", first, queued)
	_ = hogs
}

// TestRoomIsForThoseAheadToo: where CPUs idle, also who is ahead of its share uses them.
func TestRoomIsForThoseAheadToo(t *testing.T) {
	w := siegeOf("a")
	for range 30 {
		w.of("a", 20*time.Second)
	}
	for range 12 {
		w.Measure(w.now, 0.1)
	}
	if g := w.GateState(); g.Computing != [rungs]int{5: 11} {
		t.Errorf("%v compute, want 11: nobody else wants the CPUs", g.Computing)
	}
}

// fourLongOnes is a gate with room for four, which long requests of one client have.
func fourLongOnes() *world {
	p := bounded()
	p.Gate.Heavy = 4
	w := newWorld(p)
	w.acquaint("a", "b")
	for range 4 {
		w.of("a", 20*time.Second)
	}
	return w
}

// TestWhoHoldsNeedsNoCPU: also of those ahead of their share.
func TestWhoHoldsNeedsNoCPU(t *testing.T) {
	w := fourLongOnes()
	w.outrun("b")
	w.expectPhase(t, "a poll", w.poll("b"), holding)
	w.expectPhase(t, "another poll", w.poll("stranger"), holding)
}

// TestStrangersAreTriedBesideLongOnes: what nobody knows is tried though those who
// are ahead compute for long.
func TestStrangersAreTriedBesideLongOnes(t *testing.T) {
	w := fourLongOnes()
	w.gate.home.strangers.charge(&w.gate.home.clock, 10, 1e9) // they have had more than their share
	x := w.Arrive(w.now, Arrival{Client: host("stranger"), Guess: 10 * time.Millisecond})
	w.expectPhase(t, "a stranger's first page", x, probing)
}

// TestWhoWaitsForAWorkerHoldsUpNobody: long requests whose turn has come, and for which
// there is no worker, leave those that are kept to short ones of strangers.
func TestWhoWaitsForAWorkerHoldsUpNobody(t *testing.T) {
	w := newWorld(fair())
	w.acquaint("poller", "a")
	for range 14 {
		w.Hold(w.now, w.Arrive(w.now, Arrival{Client: host("poller"), Guess: time.Millisecond, Idle: 2 * time.Second, Sure: true}))
	}
	w.of("a", time.Second)
	w.of("a", time.Second)
	x := w.of("a", time.Second)
	w.expectPhase(t, "no worker is left for it", x, queued)
	w.gate.home.clock.systemVirtualTime = x.rank + 1 // its turn has come
	y := w.light("stranger")
	w.expectPhase(t, "a stranger's light page", y, computing)
}

// again has somebody ask for something again and again.
func (w *world) again(next func() Arrival, takes time.Duration) {
	var ask func()
	ask = func() {
		w.ask(next(), func(x *Ticket) {
			if x.Verdict().Refused() {
				w.Leave(w.now, x)
				w.after(takes, ask)
				return
			}
			w.after(takes, func() {
				w.done(x, time.Duration(x.guess*float64(time.Second)))
				ask()
			})
		})
	}
	ask()
}

// TestNoStrangerStarves: strangers' shorter requests leave each longer one its turn,
// whether there is room for them beside longer ones or not, and however much all
// strangers together have had.
func TestNoStrangerStarves(t *testing.T) {
	for _, beside := range []bool{false, true} {
		for r := lightRung + 1; r <= unknownRung; r++ {
			p := fair()
			p.MaxHold, p.Gate.CPUs = time.Hour, 2
			w := newWorld(p)
			if beside {
				w.acquaint("person")
				w.again(func() Arrival {
					return Arrival{Client: host("person"), Guess: time.Second, Sure: true, Proven: true}
				}, time.Second)
			}
			for i := range 8 {
				w.again(func() Arrival {
					w.seq++
					return Arrival{Client: host(fmt.Sprint("short ", w.seq)), Guess: 80 * time.Millisecond, Sure: true}
				}, time.Duration(70+7*i)*time.Millisecond)
			}
			w.gate.home.strangers.charge(&w.gate.home.clock, 20, 1e9)
			w.run(5 * time.Second)
			x := w.Arrive(w.now, Arrival{Client: host("long"), Guess: time.Duration(r.most() / 2.1 * float64(time.Second)), Sure: true})
			w.run(10 * time.Second)
			if w.phaseOf(x) == queued {
				t.Errorf("beside long ones %t: a stranger of rung %d waits for ever", beside, r)
			}
		}
	}
}
