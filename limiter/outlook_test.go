package limiter

import (
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// checkOutlooks: each waiting request has a reason to wait, and a place that no other request of its level has.
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
				t.Fatalf("two waiting requests have %d before them; the barrier of the second is %d", o.Before, o.Barrier)
			}
			taken[p] = true
		}
	}
}

// checkShown checks that no count exceeds its maximum, neither the gate's nor a barrier's.
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

// TestOutlook checks the reported facts about a waiting request, and that the request starts as soon as the
// obstacle is gone.
func TestOutlook(t *testing.T) {
	const page = 400 * time.Millisecond
	for what, c := range map[string]struct {
		client string
		want   Outlook
	}{
		"behind its own":        {"a", Outlook{Barrier: BehindOwn, Have: 1, Before: 1}},
		"another client's turn": {"b", Outlook{Barrier: NoRoom, Have: 2, Most: 2, Before: 1}},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(bounded())
			w.acquaint("hogs", "a", "b")
			hogs := []*Ticket{w.heavy("hogs"), w.heavy("hogs")}
			w.heavy("a")
			x := w.heavy(c.client)
			w.expectPhase(t, "before", x, queued)
			got := w.Outlooks(w.now, []*Ticket{x})[0]
			if !got.Waits || got.Barrier != c.want.Barrier || got.Before != c.want.Before || got.Have != c.want.Have ||
				got.Most != c.want.Most || got.Key != c.want.Key {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			w.done(hogs[0], page)
			w.done(hogs[1], page)
			w.expectPhase(t, "once the obstacle is gone", x, computing)
			if got := w.Outlooks(w.now, []*Ticket{x})[0]; got.Waits {
				t.Errorf("the request runs, but its outlook says that it waits: %+v", got)
			}
		})
	}
}

// TestOutlookUnderACap checks the outlooks of requests that wait for a debt, one after another.
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
		if o := all[i]; !o.Waits || o.Barrier != Owes || o.Before != i || (o.Paid-want).Abs() > time.Millisecond || o.Key != host("a") {
			t.Errorf("waiting request %d: %+v, want the debt paid in %v", i+1, o, want)
		}
		w.run(all[0].Paid - time.Millisecond)
		testkit.Same(t, w.now.Sub(came), w.Outlooks(w.now, []*Ticket{fourth})[0].Waited, "the time that it has waited")
	}
	if v := third.Verdict(); v.Wait > 1501*time.Millisecond {
		t.Errorf("the request waited for %v", v.Wait)
	}
}
