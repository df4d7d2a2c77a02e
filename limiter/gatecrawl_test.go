package limiter

import (
	"fmt"
	"math"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// acquaint makes clients known to the gate, without debt.
func (w *world) acquaint(clients ...string) {
	for range strangerAnswers {
		for _, c := range clients {
			t := w.Arrive(w.now, Arrival{Client: host(c), Guess: time.Millisecond, Sure: true})
			w.Settle(w.now, t, 0)
			w.Leave(w.now, t)
		}
		w.run(strangerFor / (strangerAnswers - 1))
	}
}

// fair returns a policy for two CPUs. Each client's share is a tenth.
func fair() Policy {
	p := one(Fair, Budget{CPUs: 0.2, Burst: 30 * second})
	p.Gate = GateOptions{CPUs: 2, Workers: 16}
	return p
}

// TestOneCrawlAtTheGate plays the crawl of the package documentation, step by step.
func TestOneCrawlAtTheGate(t *testing.T) {
	const page, small = 400 * time.Millisecond, 20 * time.Millisecond
	w := newWorld(fair())
	w.acquaint("crawler", "person", "other")
	begin, zero := w.elapsed(), w.GateState().Clock

	expect := func(at time.Duration, clock float64, running, waiting int) {
		t.Helper()
		if got := w.elapsed() - begin; got != at {
			t.Fatalf("the time is %v, want %v", got, at)
		}
		g := w.GateState()
		if math.Abs(g.Clock-zero-clock) > 1e-9 || g.Busy != running || g.Queued != waiting {
			t.Errorf("at %v: clock %.3f, %d run, %d wait; want %.3f, %d, %d",
				at, g.Clock-zero, g.Busy, g.Queued, clock, running, waiting)
		}
	}
	ask := func(who string, guess time.Duration) *Ticket {
		return w.Arrive(w.now, Arrival{Client: host(who), Guess: guess, Sure: true})
	}
	done := func(t *Ticket, cost time.Duration) {
		w.Settle(w.now, t, cost)
		w.Leave(w.now, t)
	}
	rank := func(t *Ticket) float64 { return math.Round((t.rank-zero)*1000) / 1000 }

	first, second, third := ask("crawler", page), ask("crawler", page), ask("crawler", page)
	cost := 4 * first.costMultiplier
	if rank(first) != cost || rank(second) != 4+cost || rank(third) != 8+cost {
		t.Errorf("the crawler's pages rank %v, %v, %v; want 0, 4 and 8, plus %v", rank(first), rank(second), rank(third), cost)
	}
	expect(0, 0, 2, 1)
	w.run(100 * time.Millisecond)
	person := ask("person", small)
	expect(100*time.Millisecond, 0, 3, 1)
	w.run(small)
	done(person, small)
	expect(120*time.Millisecond, 0.1, 2, 1)
	w.run(80 * time.Millisecond)
	w.Progress(w.now, first, page/2, true)
	w.Progress(w.now, second, page/2, true)
	other := ask("other", page)
	testkit.Same(t, 4.1+cost, rank(other), "the rank of the other page")
	expect(200*time.Millisecond, 4.1, 2, 2)
	w.run(200 * time.Millisecond)
	done(first, page)
	expect(400*time.Millisecond, 5.1, 2, 1)
	if w.phaseOf(other) != computing || w.phaseOf(third) != queued {
		t.Error("the other page starts first")
	}
	done(second, page)
	expect(400*time.Millisecond, 6.1, 2, 0)
	done(other, page)
	done(third, page)
	w.run(time.Second)
	if g := w.GateState(); g.Busy != 0 || g.Queued != 0 || g.Computing != [rungs]int{} {
		t.Errorf("all pages are done: %+v", g)
	}
}

func (w *world) phaseOf(t *Ticket) phase {
	w.gate.mu.Lock()
	defer w.gate.mu.Unlock()
	return t.phase
}

// TestNewcomersInACrowd plays the crowd of the package documentation, step by step.
func TestNewcomersInACrowd(t *testing.T) {
	const page = 150 * time.Millisecond
	w := newWorld(fair())
	begin := w.elapsed()
	var waiting []*Ticket
	comes := func(n int) {
		for range n {
			who := fmt.Sprintf("stranger %d", len(waiting))
			waiting = append(waiting, w.Arrive(w.now, Arrival{Client: host(who), Guess: page, Sure: true}))
		}
	}
	running := func() (all []*Ticket) {
		for _, x := range waiting {
			if w.phaseOf(x) == computing {
				all = append(all, x)
			}
		}
		return all
	}
	pairDone := func() {
		for _, x := range running() {
			w.Settle(w.now, x, page)
			w.Leave(w.now, x)
		}
	}
	at := func(when time.Duration, queued int) {
		t.Helper()
		if g := w.GateState(); w.elapsed()-begin != when || g.Queued != queued {
			t.Errorf("at %v %d wait, want %d at %v", w.elapsed()-begin, g.Queued, queued, when)
		}
	}
	until := func(when time.Duration) { w.run(when - (w.elapsed() - begin)) }

	comes(16)
	at(0, 14)
	for i := range 6 {
		until(time.Duration(i+1) * page)
		pairDone()
	}
	at(900*time.Millisecond, 2)
	until(950 * time.Millisecond)
	comes(1)
	newcomer := waiting[16]
	at(950*time.Millisecond, 3)
	until(1050 * time.Millisecond)
	pairDone()
	at(1050*time.Millisecond, 1)
	w.expectPhase(t, "the newcomer", newcomer, computing)
	w.expectPhase(t, "the older one of the two", waiting[14], computing)
	until(1100 * time.Millisecond)
	comes(1)
	at(1100*time.Millisecond, 2)
	until(1200 * time.Millisecond)
	pairDone()
	at(1200*time.Millisecond, 0)
	w.expectPhase(t, "another newcomer", waiting[17], computing)
	w.expectPhase(t, "the last of the sixteen", waiting[15], computing)
}
