package limiter

import (
	"slices"
	"testing"
	"time"
)

// replicate copies the gate of a siege.
func (s *siege) replicate() (r *replica, at time.Duration) {
	shot := s.gate.snapshot(s.tickets)
	shot.meetBuckets()
	return shot.replica(), s.since(s.now)
}

// checkForesight: whoever goes on a copy goes at the gate.
func (s *siege) checkForesight(t fataler) {
	r, at := s.replicate()
	s.checkCopy(t, r)
	of := map[*Ticket]*Ticket{}
	for original, x := range r.tickets {
		of[x] = original
	}
	var want []*Ticket
	r.gate.losePatience(at)
	for r.gate.queued > 0 {
		x, p := r.gate.next(at)
		if x == nil {
			break
		}
		want = append(want, of[x])
		r.gate.begin(at, x, p)
	}
	before := map[*Ticket]bool{}
	for _, x := range s.tickets {
		before[x] = x.phase == queued
	}
	s.Advance(s.now)
	for _, x := range s.tickets {
		if went, foreseen := before[x] && x.phase.running(), slices.Contains(want, x); went != foreseen {
			t.Fatalf("one went: %v; on a copy of the gate: %v", went, foreseen)
		}
	}
}

// checkBarriers: once what keeps a request waiting is taken away on a copy, nothing does,
// or something else.
func (s *siege) checkBarriers(t fataler) {
	if s.gate.home.open {
		return
	}
	for _, original := range s.tickets {
		if original.phase != queued {
			continue
		}
		r, at := s.replicate()
		x := r.tickets[original]
		b, key := r.gate.barrier(at, x)
		lift(r.gate, x, b, key)
		if again, k := r.gate.barrier(at, x); again == b && k == key && b != Turn && b != BehindOwn {
			t.Fatalf("barrier %d of a request on level %d was lifted, and is there again", b, x.level)
		}
	}
}

// checkShown: no count is above its own maximum, of the gate or of what keeps a request. The gate
// lets more in than it knows workers, to learn their number, and may learn later that there are
// fewer than are in use.
func (s *siege) checkShown(t fataler) {
	if g := s.GateState().Shown(); g.Workers > 0 && (g.Busy > g.Workers || g.LongBusy > g.LongMost) {
		t.Fatalf("%d of %d workers, %d of %d not short", g.Busy, g.Workers, g.LongBusy, g.LongMost)
	}
	for _, o := range s.Outlooks(s.now, s.tickets, s.tickets) {
		if o.Barrier != BehindOwn && o.Barrier != Orphans && o.Have > o.Most {
			t.Fatalf("%s", o.Why())
		}
	}
}

// lift takes away what keeps a request, as its barrier says.
func lift(g *gate, x *Ticket, b Barrier, key int) {
	const any = 1000
	switch b {
	case NoRoom, RoomForOthers:
		g.limits.n += any
	case NoWorker:
		g.limits.workers += any
		for i := range g.limits.most {
			g.limits.most[i] += any
		}
		g.load.holding = 0
	case SiteHolds:
		x.site.long = 0
	case SiteAhead:
		x.site.used, x.site.among.virtualTime = use{}, 0
	case KeyHolds:
		x.reservations[key].Bucket.Value.holds = 0
	case Orphans:
		x.reservations[key].Bucket.Value.orphans = 0
	case StrangersHold:
		g.home.strangerLong = 0
	case Misjudged:
		x.client.misjudged, g.home.misjudged = 0, misjudged{}
	case Untried: // it becomes known, and dear
		g.leaveLane(0, x)
		x.sure, x.level = true, level(unknownRung)
		if g.join(x) {
			g.enqueueHead(0, x)
		}
	case LongerFirst, KnownFirst, StarvedFirst:
		for i := range g.home.queues {
			for _, h := range []*headHeap{&g.home.queues[i].within, &g.home.queues[i].ahead, &g.home.queues[i].strange} {
				for _, o := range slices.Clone(*h) {
					if o != x {
						h.remove(o)
					}
				}
			}
		}
	case LeavesCPU:
		x.ahead = false
	case nothing, Owes, BehindOwn, Turn:
	}
}

// TestOutlook shows what is said of who waits, and that it goes as soon as that is over.
func TestOutlook(t *testing.T) {
	const page = 400 * time.Millisecond
	for what, c := range map[string]struct {
		setUp func(w *world) (x *Ticket, over func())
		want  Outlook
		why   string
	}{
		"no room": {func(w *world) (*Ticket, func()) {
			hogs := []*Ticket{w.heavy("hogs"), w.heavy("hogs")}
			return w.heavy("a"), func() { w.done(hogs[0], page) }
		}, Outlook{Barrier: NoRoom, Have: 2, Most: 2}, "as many requests of up to 400 ms compute as may: 2 of 2"},
		"behind its own": {func(w *world) (*Ticket, func()) {
			hogs := []*Ticket{w.heavy("hogs"), w.heavy("hogs")}
			w.heavy("a")
			return w.heavy("a"), func() { w.done(hogs[0], page); w.done(hogs[1], page) }
		}, Outlook{Barrier: BehindOwn, Have: 1, Before: 1}, "one of its client's own requests of its size goes first"},
		"another's turn": {func(w *world) (*Ticket, func()) {
			hogs := []*Ticket{w.heavy("hogs"), w.heavy("hogs")}
			w.heavy("a")
			return w.heavy("b"), func() { w.done(hogs[0], page); w.done(hogs[1], page) }
		}, Outlook{Barrier: NoRoom, Have: 2, Most: 2, Before: 1}, "as many requests of up to 400 ms compute as may: 2 of 2"},
		"its part of the workers": {func(w *world) (*Ticket, func()) {
			var polls []*Ticket
			for range 5 {
				polls = append(polls, w.poll("a"))
			}
			return w.poll("a"), func() { w.done(polls[0], 0) }
		}, Outlook{Barrier: KeyHolds, Have: 5, Most: 5, Key: Key{Class: "slash32", ID: "a"}}, "slash32 a holds its part of the workers: 5 of 5"},
		"orphans": {func(w *world) (*Ticket, func()) {
			polls := []*Ticket{w.poll("a"), w.poll("a")}
			for _, x := range polls {
				w.Orphan(w.now, x)
			}
			return w.poll("a"), func() { w.done(polls[0], 0) }
		}, Outlook{Barrier: Orphans, Have: 2, Most: 2, Key: Key{Class: "slash32", ID: "a"}},
			"slash32 a left 2 requests that the backend still works on; 2 are too many"},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(bounded())
			w.acquaint("hogs", "a", "b")
			x, over := c.setUp(w)
			w.expectPhase(t, "before", x, queued)
			got := w.Outlooks(w.now, []*Ticket{x}, nil)[0]
			if !got.Waits || got.Barrier != c.want.Barrier || got.Before != c.want.Before || got.Have != c.want.Have ||
				got.Most != c.want.Most || got.Key != c.want.Key {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if got.Why() != c.why {
				t.Errorf("got %q, want %q", got.Why(), c.why)
			}
			over()
			if !w.phaseOf(x).running() {
				t.Error("it does not go though what it waited for is over")
			}
			if got := w.Outlooks(w.now, []*Ticket{x}, nil)[0]; got.Waits {
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
	all := w.Outlooks(w.now, []*Ticket{third, fourth}, nil)
	for i, want := range []time.Duration{1500 * time.Millisecond, 3500 * time.Millisecond} {
		if o := all[i]; !o.Waits || o.Barrier != Owes || o.Before != i || (o.Paid-want).Abs() > time.Millisecond || o.Key != by("a")[0] {
			t.Errorf("the %d. that waits: %+v, want paid in %v", i+1, o, want)
		}
		w.run(all[0].Paid - time.Millisecond)
		if o := w.Outlooks(w.now, []*Ticket{fourth}, nil)[0]; o.Waited != w.now.Sub(came) {
			t.Errorf("it has waited for %v, want %v", o.Waited, w.now.Sub(came))
		}
	}
	if v := third.Verdict(); v.Wait > 1501*time.Millisecond {
		t.Errorf("it waited for %v", v.Wait)
	}
}

// TestOutlookOfTooMany: what keeps each is told, but not how many go before it.
func TestOutlookOfTooMany(t *testing.T) {
	w := siegeOf("a", "b")
	all := []*Ticket{w.heavy("a"), w.heavy("a"), w.heavy("b")}
	got := make([]Outlook, len(all))
	w.gate.outlooks(w.since(w.now), all, got)
	for i, o := range got {
		if want := i == 2; o.Waits != want || want && (o.Barrier != NoRoom || o.Before != -1) {
			t.Errorf("request %d: %+v", i, o)
		}
	}
}

// BenchmarkOutlooks has 1000 wait. A snapshot is what the gate is locked for.
func BenchmarkOutlooks(b *testing.B) {
	p := fair()
	p.MaxHeld, p.MaxHeldPerClient = 5000, 5000
	w := newWorld(p)
	var all []*Ticket
	for range 1000 {
		all = append(all, w.another(400*time.Millisecond))
	}
	b.Run("snapshot", func(b *testing.B) {
		for range b.N {
			w.gate.snapshot(nil)
		}
	})
	b.Run("all", func(b *testing.B) {
		for range b.N {
			w.Outlooks(w.now, all, nil)
		}
	})
}
