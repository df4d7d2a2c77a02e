package limiter

import (
	"fmt"
	"testing"
	"time"
)

// TestWaitingForAProbeEnds: a request of unknown cost that may not hold a worker like an expensive one becomes
// a probe as soon as the previous probe is done or has turned out to be expensive.
func TestWaitingForAProbeEnds(t *testing.T) {
	for _, dear := range []bool{false, true} {
		w := newWorld(bounded())
		w.acquaint("a", "b")
		for range 9 {
			w.poll("a") // as many requests as the client may hold
		}
		fresh := func(client string) *Ticket {
			return w.Arrive(w.now, Arrival{Client: host(client), Guess: 10 * time.Millisecond})
		}
		x, y := fresh("b"), fresh("a")
		w.expectPhase(t, "the first", x, probing)
		w.expectPhase(t, "the second", y, queued)
		if dear {
			w.Progress(w.now, x, 200*time.Millisecond, true)
		} else {
			w.done(x, 10*time.Millisecond)
		}
		w.expectPhase(t, fmt.Sprint("the first was expensive: ", dear, ", the second"), y, probing)
	}
}

// TestParkedStrangersComeBackInOrder: when strangers whose keys held too many workers compete again, they take
// their places in the usual order.
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
	w.run(600 * time.Millisecond) // the first one has lost patience, the second one hasn't
	third := w.poll("third")
	w.done(polls[0], time.Second)
	w.expectPhase(t, "the newest", third, holding)
	w.done(polls[1], time.Second)
	w.expectPhase(t, "the second one", second, holding)
	w.expectPhase(t, "the first one, which has lost patience", first, queued)
	_ = hogs
}

// fourLongOnes returns a gate with room for four requests, all of it taken by long requests of one client.
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

// TestHoldingNeedsNoCPU: requests that only hold a worker start, even if their clients are over their share.
func TestHoldingNeedsNoCPU(t *testing.T) {
	w := fourLongOnes()
	w.outrun("b")
	w.expectPhase(t, "a poll", w.poll("b"), holding)
	w.expectPhase(t, "another poll", w.poll("stranger"), holding)
}

// TestStrangersAreTriedNextToLongRequests: requests of unknown cost are tried although long requests of clients
// over their share compute.
func TestStrangersAreTriedNextToLongRequests(t *testing.T) {
	w := fourLongOnes()
	w.gate.home.strangers.charge(&w.gate.home.clock, 10, 1e9) // strangers have had more than their share
	x := w.Arrive(w.now, Arrival{Client: host("stranger"), Guess: 10 * time.Millisecond})
	w.expectPhase(t, "a stranger's first page", x, probing)
}

// TestWaitingForAWorkerDelaysNoOthers: if it is the turn of long requests but there is no worker for them,
// strangers' short requests still use the kept workers.
func TestWaitingForAWorkerDelaysNoOthers(t *testing.T) {
	w := newWorld(fair())
	w.acquaint("poller", "a")
	for range 14 {
		w.Hold(w.now, w.Arrive(w.now, Arrival{Client: host("poller"), Guess: time.Millisecond, Idle: 2 * time.Second, Sure: true}))
	}
	w.of("a", time.Second)
	w.of("a", time.Second)
	x := w.of("a", time.Second)
	w.expectPhase(t, "a request for which no worker is left", x, queued)
	w.gate.home.clock.systemVirtualTime = x.rank + 1 // its turn has come
	y := w.light("stranger")
	w.expectPhase(t, "a stranger's light page", y, computing)
}

// TestNoStrangerStarves: strangers' shorter requests don't take the turn of their longer ones, whether or not
// short requests have room next to long ones, and however much service strangers have had.
func TestNoStrangerStarves(t *testing.T) {
	for _, beside := range []bool{false, true} {
		for r := lightRung + 1; r <= briefRung; r++ {
			p := fair()
			p.MaxHold, p.Gate.CPUs = time.Hour, 2
			w, used := newWorld(p), map[string]float64{}
			if beside {
				w.acquaint("person")
				w.wants("person", 1, Arrival{Client: host("person"), Guess: time.Second, Sure: true, Proven: true}, used)
			}
			for i := range 8 {
				w.loop("strangers", 1, used, func() Arrival {
					w.seq++
					return Arrival{Client: host(fmt.Sprint("short ", w.seq)), Guess: time.Duration(50+7*i) * time.Millisecond, Sure: true}
				})
			}
			w.gate.home.strangers.charge(&w.gate.home.clock, 20, 1e9)
			w.run(5 * time.Second)
			x := w.Arrive(w.now, Arrival{Client: host("long"), Guess: time.Duration(r.most() / 2.1 * float64(time.Second)), Sure: true})
			w.run(10 * time.Second)
			if w.phaseOf(x) == queued {
				t.Errorf("next to long requests %t: a stranger of rung %d waits forever", beside, r)
			}
		}
	}
}
