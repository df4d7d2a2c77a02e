package limiter

import (
	"testing"
	"time"
)

// checkOutlooks: a reason is told of each that waits, and a place that no other one of its level has.
func (s *siege) checkOutlooks(t fataler) {
	type place struct {
		of     *site
		level  level
		before int
	}
	taken := map[place]bool{}
	for i, o := range s.Outlooks(s.now, s.tickets) {
		if x := s.tickets[i]; o.Waits && x.waitEntry == nil {
			p := place{x.site, x.level, o.Before}
			if o.Barrier == nothing || taken[p] {
				t.Fatalf("of one that waits it is said that %d go before it, which another one was told, and barrier %d", o.Before, o.Barrier)
			}
			taken[p] = true
		}
	}
}

// checkShown: no count is above its own maximum, of the gate or of what keeps a request.
func (s *siege) checkShown(t fataler) {
	if g := s.GateState(); g.Workers > 0 && (g.Busy > g.Workers || g.LongBusy > g.LongMost) {
		t.Fatalf("%d of %d workers, %d of %d not short", g.Busy, g.Workers, g.LongBusy, g.LongMost)
	}
	for _, o := range s.Outlooks(s.now, s.tickets) {
		if o.Barrier != BehindOwn && o.Have > o.Most {
			t.Fatalf("%d of %d of barrier %d", o.Have, o.Most, o.Barrier)
		}
	}
}

// TestOutlook shows what is said of who waits, and that it goes as soon as that is over.
func TestOutlook(t *testing.T) {
	const page = 400 * time.Millisecond
	for what, c := range map[string]struct {
		setUp func(w *world) (x *Ticket, over func())
		want  Outlook
	}{
		"no room": {func(w *world) (*Ticket, func()) {
			hogs := []*Ticket{w.heavy("hogs"), w.heavy("hogs")}
			return w.heavy("a"), func() { w.done(hogs[0], page) }
		}, Outlook{Barrier: NoRoom, Have: 2, Most: 2}},
		"behind its own": {func(w *world) (*Ticket, func()) {
			hogs := []*Ticket{w.heavy("hogs"), w.heavy("hogs")}
			w.heavy("a")
			return w.heavy("a"), func() { w.done(hogs[0], page); w.done(hogs[1], page) }
		}, Outlook{Barrier: BehindOwn, Have: 1, Before: 1}},
		"another's turn": {func(w *world) (*Ticket, func()) {
			hogs := []*Ticket{w.heavy("hogs"), w.heavy("hogs")}
			w.heavy("a")
			return w.heavy("b"), func() { w.done(hogs[0], page); w.done(hogs[1], page) }
		}, Outlook{Barrier: NoRoom, Have: 2, Most: 2, Before: 1}},
		"its part of the workers": {func(w *world) (*Ticket, func()) {
			var polls []*Ticket
			for range 5 {
				polls = append(polls, w.poll("a"))
			}
			return w.poll("a"), func() { w.done(polls[0], 0) }
		}, Outlook{Barrier: KeyHolds, Have: 5, Most: 5, Key: Key{Class: "slash32", ID: "a"}}},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(bounded())
			w.acquaint("hogs", "a", "b")
			x, over := c.setUp(w)
			w.expectPhase(t, "before", x, queued)
			got := w.Outlooks(w.now, []*Ticket{x})[0]
			if !got.Waits || got.Barrier != c.want.Barrier || got.Before != c.want.Before || got.Have != c.want.Have ||
				got.Most != c.want.Most || got.Key != c.want.Key {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			over()
			if !w.phaseOf(x).running() {
				t.Error("it does not go though what it waited for is over")
			}
			if got := w.Outlooks(w.now, []*Ticket{x})[0]; got.Waits {
				t.Errorf("it runs, and is said to wait: %+v", got)
			}
		})
	}
}

// TestOutlookUnderACap tells of those that wait for a debt to be paid, one after the other.
func TestOutlookUnderACap(t *testing.T) {
	w := newWorld(one(Cap, Budget{CPUs: 0.4, Burst: second}))
	w.run(time.Minute)
	came := w.now
	ask := func() *Ticket {
		return w.Arrive(w.now, Arrival{Client: host("a"), Guess: 800 * time.Millisecond, Sure: true})
	}
	ask()
	ask()
	third, fourth := ask(), ask()
	all := w.Outlooks(w.now, []*Ticket{third, fourth})
	for i, want := range []time.Duration{1500 * time.Millisecond, 3500 * time.Millisecond} {
		if o := all[i]; !o.Waits || o.Barrier != Owes || o.Before != i || (o.Paid-want).Abs() > time.Millisecond || o.Key != by("a")[0] {
			t.Errorf("the %d. that waits: %+v, want paid in %v", i+1, o, want)
		}
		w.run(all[0].Paid - time.Millisecond)
		if o := w.Outlooks(w.now, []*Ticket{fourth})[0]; o.Waited != w.now.Sub(came) {
			t.Errorf("it has waited for %v, want %v", o.Waited, w.now.Sub(came))
		}
	}
	if v := third.Verdict(); v.Wait > 1501*time.Millisecond {
		t.Errorf("it waited for %v", v.Wait)
	}
}
