package limiter

import (
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
			return s.world, s.polls(6, "a")[5], func() { s.Found(s.now, 40, "php-fpm") }
		},
		"connections prove more": func() (*world, *Ticket, func()) {
			s := newShift(t, 0)
			return s.world, s.polls(20, "a", "b", "c", "d")[19], func() { s.Tried(s.now, 40, 0) }
		},
		"an answer proves more": func() (*world, *Ticket, func()) {
			s := newShift(t, 0)
			s.polls(12, "a", "b", "c", "d")
			pages := s.pages(4, "e", "f")
			s.run(20 * time.Millisecond)
			return s.world, pages[7], func() { s.Answering(s.now, pages[5]) }
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
