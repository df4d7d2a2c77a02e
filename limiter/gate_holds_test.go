package limiter

import (
	"testing"
	"time"
)

// What must hold, between two calls, of those that keep a worker for long.

// checkHolds counts anew, for all and for each key.
func (s *siege) checkHolds(t interface{ Fatalf(string, ...any) }) {
	g := s.gate
	orphans, strangers, trying, late := 0, 0, 0, 0
	holds, left := map[*bucket]int32{}, map[*bucket]int32{}
	for _, x := range s.tickets {
		if x.stage < express {
			continue
		}
		long := x.stage != express
		if x.orphan {
			orphans++
		}
		if x.tries {
			trying++
		}
		if x.trial.late {
			late++
		}
		if long && x.flow == &g.strangers {
			strangers++
		}
		x.each(func(sl *slot) {
			if long {
				holds[sl.bucket]++
			}
			if x.orphan {
				left[sl.bucket]++
			}
		})
	}
	if orphans != g.orphans || strangers != g.strangerLong || trying != g.trying || late != g.workers.late {
		t.Fatalf("%d orphans, %d of strangers, %d try, %d late; the gate counts %d, %d, %d, %d",
			orphans, strangers, trying, late, g.orphans, g.strangerLong, g.trying, g.workers.late)
	}
	for i := range s.table.shards {
		s.table.shards[i].each(func(b *bucket) {
			if b.holds != holds[b] || b.orphans != left[b] {
				t.Fatalf("%v holds %d and left %d, its bucket says %d and %d", b.key, holds[b], left[b], b.holds, b.orphans)
			}
		})
	}
}

// checkStarts looks at those that the last call let go: a start only adds to what
// is held, so that after all of them there is no more than the last one found.
func (s *siege) checkStarts(t interface{ Fatalf(string, ...any) }) {
	g, n := s.gate, s.gate.limits
	most := map[*bucket]int{} // that a key may hold after what was let go
	long, any := false, false
	for _, x := range s.tickets {
		was := s.stages[x]
		s.stages[x] = x.stage
		if was >= express || x.stage < express || g.open {
			continue
		}
		any = true
		if x.stage != express {
			long = long || !x.tries
			for i := range x.slots[:x.n] {
				if b := x.slots[i].bucket; b != nil && x.slots[i].workers > 0 {
					most[b] = max(most[b], s.mostHeld(x, i))
				}
			}
		}
	}
	tried := n.workers + max(1, n.workers/8)
	if g.workers.most == 0 { // some short ones always go
		tried = max(tried, g.longBusy+2, g.busy-g.expressBusy-g.probing+2)
	}
	if any && g.busy > tried {
		t.Fatalf("%d at the backend of %d workers, want at most %d", g.busy, n.workers, tried)
	}
	if reserve := max(n.long, min(n.long+n.least, n.workers-2)); long && g.longBusy > reserve {
		t.Fatalf("%d of %d workers are held, want at most %d", g.longBusy, n.workers, reserve)
	}
	for b, m := range most {
		if int(b.holds) > m {
			t.Fatalf("%v holds %d workers, want at most %d", b.key, b.holds, m)
		}
	}
}

// mostHeld is how many workers the i-th key of a request that has just got one may
// hold, that one included.
func (s *siege) mostHeld(x *Ticket, i int) int {
	n := s.gate.limits
	part := int(x.slots[i].workers * float32(n.long))
	switch {
	case x.light, x.fresh && x.stage == probe:
		if s.gate.longBusy > n.long+n.least && i > 0 {
			return n.workers + max(1, n.workers/8) // only its client was looked at
		}
		return part + n.least + 1
	case x.likelyIdle < waitsFrom:
		return max(part, n.least)
	}
	return max(part, 1)
}

// checkParked finds one who is parked though it might go as soon as there is a
// slot: nobody wakes it for that.
func (s *siege) checkParked(t interface{ Fatalf(string, ...any) }) {
	g := s.gate
	for _, x := range g.parked {
		// Where another one is tried, it would have to go as one that is dear.
		if g.mayHold(x, probe) && (!x.fresh || g.probing == 0 || g.mayHold(x, heavy)) {
			t.Fatalf("one is parked that may hold a worker: light %t, fresh %t, sure %t, waits %t, idle %g; %d of %d held",
				x.light, x.fresh, x.sure, x.waits, x.likelyIdle, g.longBusy, g.limits.long)
		}
	}
}

// TestWhoIsParkedIsWoken by a short orphan's end, and by more workers.
func TestWhoIsParkedIsWoken(t *testing.T) {
	p := bounded()
	p.Gate.Heavy = 6
	w := newWorld(p)
	w.acquaint("hasty")
	first, second := w.light("hasty"), w.light("hasty")
	w.Orphan(w.now, first)
	w.Orphan(w.now, second)
	third := w.heavy("hasty")
	w.expectStage(t, "two were left behind", third, queued)
	w.done(first, 20*time.Millisecond)
	w.expectStage(t, "one of them has ended", third, heavy)

	s := newShift(t, 0)
	s.polls(9, "a")
	s.expectState(t, "a part of 16 workers", map[string]int{"holding": 5, "queued": 4})
	s.Found(s.now, 40, "php-fpm")
	s.expectState(t, "a part of 40", map[string]int{"holding": 9, "queued": 0})
}
