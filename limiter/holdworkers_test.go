package limiter

import (
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestOneClientHoldsWorkers follows the example in the package documentation, step by step: an address opens
// event streams and disconnects from pages.
func TestOneClientHoldsWorkers(t *testing.T) {
	w := newWorld(bounded())
	w.acquaint("holder", "person")
	begin := w.elapsed()
	expect := func(at time.Duration, long, orphans, queued int) {
		t.Helper()
		if got := w.elapsed() - begin; got != at {
			t.Fatalf("the time is %v, want %v", got, at)
		}
		if g := w.GateState(); g.LongMost != 11 || g.LongBusy != long || g.Orphans != orphans || g.Queued != queued {
			t.Errorf("at %v: %d of %d not short, %d orphans, %d wait; want %d of 11, %d, %d",
				at, g.LongBusy, g.LongMost, g.Orphans, g.Queued, long, orphans, queued)
		}
	}
	slow := func() *Ticket {
		return w.Arrive(w.now, Arrival{Client: host("holder"), Guess: 50 * time.Millisecond, Idle: 20 * second, Sure: true})
	}

	first, second := slow(), slow()
	expect(0, 2, 0, 0)
	w.run(100 * time.Millisecond)
	w.Orphan(w.now, first)
	w.Orphan(w.now, second)
	expect(100*time.Millisecond, 2, 2, 0)
	w.run(100 * time.Millisecond)
	var streams []*Ticket
	for range 6 {
		streams = append(streams, w.poll("holder"))
	}
	expect(200*time.Millisecond, 5, 2, 3)
	w.run(100 * time.Millisecond)
	style, page := w.light("holder"), w.light("person")
	w.expectPhase(t, "the address's style sheet", style, computing)
	w.expectPhase(t, "a person's page", page, computing)
	expect(300*time.Millisecond, 5, 2, 3)
	testkit.Same(t, 2, w.gate.shortUse.most(), "workers that short requests have used")
	w.done(style, 20*time.Millisecond)
	w.done(page, 20*time.Millisecond)
	w.run(19700 * time.Millisecond)
	w.done(first, 400*time.Millisecond)
	expect(20*time.Second, 5, 1, 2)
	w.done(second, 400*time.Millisecond)
	expect(20*time.Second, 5, 0, 1)
	w.expectPhase(t, "the sixth stream", streams[5], queued)
	w.run(11 * time.Second)
	testkit.Same(t, Refuse, streams[5].Verdict().Action, "the sixth stream")
	expect(31*time.Second, 5, 0, 0)
	for range 20 {
		w.light("person")
	}
	used := w.gate.shortUse.most()
	w.Measure(w.now, 1)
	testkit.Same(t, used+1, w.gate.shortUse.most(), "workers that short requests have used, while some wait")
}

// TestStrangersMayHoldMoreOnceKnownClientsLeft: a stranger's request that waits for known clients' workers starts
// when their use is no longer recent, even if nothing else happens.
func TestStrangersMayHoldMoreOnceKnownClientsLeft(t *testing.T) {
	w := newWorld(bounded())
	w.acquaint("a", "b", "c")
	var known []*Ticket
	for i := range 10 {
		known = append(known, w.poll(string(rune('a'+i%3))))
	}
	for _, x := range known {
		w.done(x, time.Millisecond)
	}
	for i := range 5 {
		w.poll(string(rune('p' + i)))
	}
	x := w.Arrive(w.now, Arrival{Client: host("z"), Guess: 10 * time.Millisecond, Idle: 1500 * time.Millisecond, Sure: true})
	w.expectPhase(t, "after known clients' use", x, queued)
	for range 4 {
		w.run(6 * time.Second)
		w.Measure(w.now, 0.1)
	}
	w.expectPhase(t, "after their use has faded", x, holding)
}
