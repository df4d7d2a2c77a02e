package limiter

import (
	"math"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestStartsAreAnnounced: whatever makes room for a waiting request, the gate starts and announces it at once.
func TestStartsAreAnnounced(t *testing.T) {
	const page = 400 * time.Millisecond
	heavies := func() (w *world, x, waits *Ticket) {
		w = siegeOf("a", "b")
		x = w.heavy("a")
		w.heavy("a")
		return w, x, w.heavy("b")
	}
	tried := func() (w *world, x, waits *Ticket) {
		w, _, _ = heavies()
		x = w.Arrive(w.now, Arrival{Client: host("a")})
		return w, x, w.Arrive(w.now, Arrival{Client: host("b")})
	}
	fewWorkers := func() (w *world, x, waits *Ticket) {
		s := newShift(t, 0)
		s.Found(s.now, 16, "php-fpm")
		all := s.polls(6, "a")
		return s.world, all[0], all[5]
	}
	crowd := func() (w *world, x, waits *Ticket) {
		s := newShift(t, 0)
		all := s.polls(20, "a", "b", "c", "d")
		return s.world, all[0], all[19]
	}
	for name, c := range map[string]struct {
		before    func() (w *world, x, waits *Ticket) // x runs
		makesRoom func(w *world, x, waits *Ticket)
	}{
		"a running request ends":             {heavies, func(w *world, x, _ *Ticket) { w.Settle(w.now, x, page) }},
		"a client disconnects":               {heavies, func(w *world, x, _ *Ticket) { w.Leave(w.now, x) }},
		"a running request turns out longer": {heavies, func(w *world, x, _ *Ticket) { w.Progress(w.now, x, 3*page, true) }},
		"a running request doesn't compute":  {heavies, func(w *world, x, _ *Ticket) { w.Progress(w.now, x, page/2, false) }},
		"a running request is a stream":      {heavies, func(w *world, x, _ *Ticket) { w.Hold(w.now, x) }},
		"CPUs are idle":                      {heavies, func(w *world, _, _ *Ticket) { w.Measure(w.now, 0.1) }},
		"the request turns out shorter": {heavies, func(w *world, _, waits *Ticket) {
			w.Reguess(w.now, waits, Estimate{Guess: page / 40, Sure: true})
		}},
		"a probe turns out to be expensive": {tried, func(w *world, x, _ *Ticket) { w.Progress(w.now, x, page, true) }},
		"a new policy has more room": {heavies, func(w *world, _, _ *Ticket) {
			p := fair()
			p.Gate.Heavy = 3
			w.SetPolicy(w.now, p)
			w.advance()
		}},
		"more workers are found": {fewWorkers, func(w *world, _, _ *Ticket) { w.Found(w.now, 40, "php-fpm") }},
		"no connection waits":    {crowd, func(w *world, _, _ *Ticket) { w.Backlog(w.now, 0, 5, 0) }},
	} {
		w, x, waits := c.before()
		w.expectPhase(t, name+", before", waits, queued)
		c.makesRoom(w, x, waits)
		if told := testkit.Ready(waits.Decided()); !told || !w.phaseOf(waits).running() {
			t.Errorf("%s: decided %t, phase %d, %+v", name, told, w.phaseOf(waits), waits.Verdict())
		}
	}
}

// TestWaitingTooLongIsRefused: a request that has waited too long is refused, even while others still wait.
func TestWaitingTooLongIsRefused(t *testing.T) {
	w := siegeOf("hog", "a", "b", "c")
	w.heavy("hog")
	w.heavy("hog")
	var all []*Ticket
	for _, client := range []string{"a", "b", "c"} {
		all = append(all, w.heavy(client))
		w.now = w.now.Add(time.Second)
	}
	w.now = w.now.Add(28 * time.Second) // 31, 30 and 29 s after the requests arrived
	testkit.Same(t, w.now.Add(time.Second), w.Advance(w.now), "Advance asks to be called when the third has waited too long")
	for i, x := range all {
		if told := testkit.Ready(x.Decided()); told != (i < 2) || x.Verdict().Refused() != told {
			t.Errorf("request %d is decided: %t, %+v", i, told, x.Verdict())
		}
	}
}

// TestObserveOnlyReports checks that no request waits, and that verdicts report which ones would have waited.
func TestObserveOnlyReports(t *testing.T) {
	p := fair()
	p.Mode = Observe
	w := newWorld(p)
	w.acquaint("a")
	for i := range 30 {
		x := w.heavy("a")
		if !testkit.Ready(x.Decided()) {
			t.Fatalf("request %d waits", i)
		}
		v := x.Verdict()
		if want := i >= 2; v.Refused() || v.Shadow != want || (v.Reason == Busy) != want {
			t.Errorf("request %d: %+v", i, v)
		}
	}
}

// TestWaitAtTheGateIsShown: the wait of a request at the gate counts in the average of each of its keys,
// whether the request was started, refused or abandoned.
func TestWaitAtTheGateIsShown(t *testing.T) {
	p := fair()
	p.MaxHold = 8 * time.Second
	p.Classes = append(p.Classes, ClassInfo{"slash24", Budget{CPUs: 1, Burst: time.Hour}})
	for what, c := range map[string]struct {
		end  func(w *world, x *Ticket)
		want time.Duration
	}{
		"let go": {func(w *world, x *Ticket) {
			w.expectPhase(t, "once there is room", x, computing)
			w.run(time.Second)
			w.done(x, 400*time.Millisecond)
		}, 3 * time.Second},
		"refused":  {func(w *world, x *Ticket) {}, 8 * time.Second},
		"given up": {func(w *world, x *Ticket) { w.Leave(w.now, x) }, 3 * time.Second},
	} {
		w := newWorld(p)
		w.acquaint("hogs", "a")
		running := []*Ticket{w.heavy("hogs"), w.heavy("hogs")}
		x := w.Arrive(w.now, Arrival{Client: host("a"), Others: networks("a/24"), Guess: 400 * time.Millisecond, Sure: true})
		w.run(3 * time.Second)
		if what == "let go" {
			w.done(running[0], 3*time.Second)
		}
		c.end(w, x)
		w.run(6 * time.Second)
		w.Leave(w.now, x)
		for i, key := range []Key{host("a"), networks("a/24")[0]} {
			r, _ := w.Find(w.now, key)
			before := []float64{strangerAnswers, 0}[i] // the answers that made the client known
			if want := c.want.Seconds() / (before + 1); math.Abs(r.Wait-want) > 0.01*want {
				t.Errorf("%s, key %d: an average wait of %.3f s, want %.3f s", what, i, r.Wait, want)
			}
		}
		if r, _ := w.Find(w.now, host("hogs")); r.Wait > 0 {
			t.Errorf("%s: the requests that started at once waited for %.3f s", what, r.Wait)
		}
	}
}

// TestRefusalBehindACapIsAnnounced: if the gate refuses a request that has just come from a cap's queue, the
// request's owner is notified.
func TestRefusalBehindACapIsAnnounced(t *testing.T) {
	p := fair()
	p.MaxHeld = 1
	p.Classes = append(p.Classes, ClassInfo{Name: "slash24", Budget: Budget{CPUs: 1, Burst: 30 * second, Cap: true}})
	w := newWorld(p)
	arrive := func(net string) *Ticket {
		return w.Arrive(w.now, Arrival{Client: host("a"), Others: networks(net), Guess: time.Second, Sure: true})
	}
	for range 3 { // the last one waits at the gate
		arrive("free")
	}
	w.Debit(w.now, Charge{Key: networks("capped")[0], Cost: 32 * time.Second})
	capped := arrive("capped")
	w.run(3 * time.Second)
	if !testkit.Ready(capped.Decided()) {
		t.Error("a request that the gate refused waits forever for its decision")
	}
}

// TestNoRequestWaitsLongerThanMaxHold: the time that a request waited for a cap also counts at the gate, even
// behind requests that arrived there earlier.
func TestNoRequestWaitsLongerThanMaxHold(t *testing.T) {
	p := fair()
	p.Classes = append(p.Classes, ClassInfo{Name: "slash24", Budget: Budget{CPUs: 1, Burst: 30 * second, Cap: true}})
	w := newWorld(p)
	arrive := func(net string) *Ticket {
		return w.Arrive(w.now, Arrival{Client: host("a"), Others: networks(net), Guess: 10 * time.Second, Sure: true})
	}
	arrive("hog")
	arrive("hog")
	w.Debit(w.now, Charge{Key: networks("capped")[0], Cost: 54 * time.Second})
	capped := arrive("capped") // waits 24 s for the cap
	w.run(20 * time.Second)
	arrive("free") // arrives at the gate earlier, and may wait until 50 s
	w.run(10*time.Second - time.Millisecond)
	w.expectPhase(t, "before 30 s", capped, queued)
	w.run(2 * time.Millisecond)
	w.expectPhase(t, "after 30 s", capped, outside)
	if v := capped.Verdict(); v.Reason != Busy {
		t.Errorf("%v, want a refusal because the backend had no room for so long", v)
	}
}
