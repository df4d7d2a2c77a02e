package limiter

import (
	"math"
	"testing"
	"time"
)

// TestWhoGoesIsTold: whatever makes room for a request that waits, tells it at once that it goes.
func TestWhoGoesIsTold(t *testing.T) {
	const page = 400 * time.Millisecond
	heavies := func() (w *world, x, waits *Ticket) {
		w = siegeOf("a", "b")
		x = w.heavy("a")
		w.heavy("a")
		return w, x, w.heavy("b")
	}
	for name, room := range map[string]func() (w *world, waits *Ticket, makes func()){
		"one ends": func() (*world, *Ticket, func()) {
			w, x, waits := heavies()
			return w, waits, func() { w.Settle(w.now, x, page) }
		},
		"one leaves": func() (*world, *Ticket, func()) {
			w, x, waits := heavies()
			return w, waits, func() { w.Leave(w.now, x) }
		},
		"one is longer": func() (*world, *Ticket, func()) {
			w, x, waits := heavies()
			return w, waits, func() { w.Progress(w.now, x, 3*page, true) }
		},
		"one does not compute": func() (*world, *Ticket, func()) {
			w, x, waits := heavies()
			return w, waits, func() { w.Progress(w.now, x, page/2, false) }
		},
		"one is a stream": func() (*world, *Ticket, func()) {
			w, x, waits := heavies()
			return w, waits, func() { w.Hold(w.now, x) }
		},
		"CPUs are idle": func() (*world, *Ticket, func()) {
			w, _, waits := heavies()
			return w, waits, func() { w.Measure(w.now, 0.1) }
		},
		"it is shorter": func() (*world, *Ticket, func()) {
			w, _, waits := heavies()
			return w, waits, func() { w.Reguess(w.now, waits, Estimate{Guess: page / 40, Sure: true}) }
		},
		"a pause is over": func() (*world, *Ticket, func()) {
			w, _, _ := heavies()
			x := w.Arrive(w.now, Arrival{Client: host("a")})
			w.Progress(w.now, x, page, true)
			return w, w.Arrive(w.now, Arrival{Client: host("b")}), func() { w.run(probePause) }
		},
		"a policy has more room": func() (*world, *Ticket, func()) {
			w, _, waits := heavies()
			p := fair()
			p.Gate.Heavy = 3
			return w, waits, func() { w.SetPolicy(w.now, p); w.advance() }
		},
		"more workers are found": func() (*world, *Ticket, func()) {
			s := newShift(t, 0)
			s.Found(s.now, 16, "php-fpm")
			return s.world, s.polls(6, "a")[5], func() { s.Found(s.now, 40, "php-fpm") }
		},
		"no connection waits": func() (*world, *Ticket, func()) {
			s := newShift(t, 0)
			return s.world, s.polls(20, "a", "b", "c", "d")[19], func() { s.Backlog(s.now, 0, 5) }
		},
	} {
		w, waits, makes := room()
		w.expectPhase(t, name+", before", waits, queued)
		makes()
		select {
		case <-waits.Decided():
			if !w.phaseOf(waits).running() {
				t.Errorf("%s: it is told, and does not go: %+v", name, waits.Verdict())
			}
		default:
			t.Errorf("%s: it is not told; in phase %d", name, w.phaseOf(waits))
		}
	}
}

// TestWhoHasWaitedTooLongIsTold, also while others wait still.
func TestWhoHasWaitedTooLongIsTold(t *testing.T) {
	w := siegeOf("hog", "a", "b", "c")
	w.heavy("hog")
	w.heavy("hog")
	var all []*Ticket
	for _, client := range []string{"a", "b", "c"} {
		all = append(all, w.heavy(client))
		w.now = w.now.Add(time.Second)
	}
	w.now = w.now.Add(28 * time.Second) // 31, 30 and 29 s after they came
	if next := w.Advance(w.now); next != w.now.Add(time.Second) {
		t.Errorf("it wants to be called in %v, as the third has waited for too long then", next.Sub(w.now))
	}
	for i, x := range all {
		told := false
		select {
		case <-x.Decided():
			told = true
		default:
		}
		if told != (i < 2) || x.Verdict().Refused() != told {
			t.Errorf("request %d is told: %t, %+v", i, told, x.Verdict())
		}
	}
}

// TestObserveOnlyTells checks that nobody waits, and that the verdict says who
// would have.
func TestObserveOnlyTells(t *testing.T) {
	p := fair()
	p.Mode = Observe
	w := newWorld(p)
	w.acquaint("a")
	for i := range 30 {
		x := w.heavy("a")
		select {
		case <-x.Decided():
		default:
			t.Fatalf("request %d waits", i)
		}
		v := x.Verdict()
		if want := i >= 2; v.Refused() || v.Shadow != want || (v.Reason == Busy) != want {
			t.Errorf("request %d: %+v", i, v)
		}
	}
}

// TestWaitAtTheGateIsShown: the time that a request waited at the gate counts into
// the average of each of its keys, whether it was let go, refused or given up.
func TestWaitAtTheGateIsShown(t *testing.T) {
	p := fair()
	p.MaxHold = 8 * time.Second
	p.Classes = append(p.Classes, ClassInfo{"slash24", Budget{CPUs: 1, Burst: time.Hour}})
	for what, c := range map[string]struct {
		end  func(w *world, x *Ticket)
		want time.Duration
	}{
		"let go": {func(w *world, x *Ticket) {
			w.expectPhase(t, "after there was room", x, computing)
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
		for i, key := range by("a", "a/24") {
			r, _ := w.Find(w.now, key)
			before := []float64{strangerAnswers, 0}[i] // by which it was acquainted
			if want := c.want.Seconds() / (before + 1); math.Abs(r.Wait-want) > 0.01*want {
				t.Errorf("%s, key %d: an average wait of %.3f s, want %.3f s", what, i, r.Wait, want)
			}
		}
		if r, _ := w.Find(w.now, by("hogs")[0]); r.Wait > 0 {
			t.Errorf("%s: who ran at once waited for %.3f s", what, r.Wait)
		}
	}
}

// TestRefusedBehindACapIsTold: a request that waited for a cap, and that the gate refuses as it
// comes there, is told.
func TestRefusedBehindACapIsTold(t *testing.T) {
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
	select {
	case <-capped.Decided():
	default:
		t.Error("a request that the gate refused waits for its decision for ever")
	}
}

// TestNobodyWaitsLongerThanMaxHold: what a request has waited for a cap counts at the gate as well,
// behind requests that came there before it.
func TestNobodyWaitsLongerThanMaxHold(t *testing.T) {
	p := fair()
	p.Classes = append(p.Classes, ClassInfo{Name: "slash24", Budget: Budget{CPUs: 1, Burst: 30 * second, Cap: true}})
	w := newWorld(p)
	arrive := func(net string) *Ticket {
		return w.Arrive(w.now, Arrival{Client: host("a"), Others: networks(net), Guess: 10 * time.Second, Sure: true})
	}
	arrive("hog")
	arrive("hog")
	w.Debit(w.now, Charge{Key: networks("capped")[0], Cost: 54 * time.Second})
	capped := arrive("capped") // for 24 s behind the cap
	w.run(20 * time.Second)
	arrive("free") // before it at the gate, and may wait until 50 s
	w.run(10*time.Second - time.Millisecond)
	w.expectPhase(t, "before 30 s", capped, queued)
	w.run(2 * time.Millisecond)
	w.expectPhase(t, "after 30 s", capped, outside)
	if v := capped.Verdict(); v.Reason != Busy {
		t.Errorf("%v, want it refused as the backend had no room for so long", v)
	}
}
