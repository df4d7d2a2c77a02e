package limiter

import (
	"testing"

	"tempomat/limiter/account"
)

// What must hold, between two calls, of those that keep a worker for long.

// checkHolds counts anew, for all, for each key and for each client.
func (s *siege) checkHolds(t fataler) {
	g := s.gate
	orphans, strangers, wrong := 0, 0, 0
	holds, left := map[*bucket]int32{}, map[*bucket]int32{}
	type tally struct{ queued, running, misjudged int32 }
	clients := map[*client]tally{}
	for _, x := range s.tickets {
		if x.phase == outside {
			continue
		}
		n := clients[x.client]
		if x.phase == queued {
			n.queued++
			clients[x.client] = n
			continue
		}
		n.running++
		long := x.phase != probing && x.rung > lightRung
		if x.orphan {
			orphans++
		}
		if long && x.stranger {
			strangers++
		}
		if long && x.level.short() {
			n.misjudged++
			wrong++
		}
		clients[x.client] = n
		x.each(func(sl *reservation) {
			if long {
				holds[sl.Bucket]++
			}
			if x.orphan {
				left[sl.Bucket]++
			}
		})
	}
	if orphans != g.orphans || strangers != g.home.strangerLong || wrong != g.home.misjudged.known+g.home.misjudged.strange {
		t.Fatalf("%d orphans, %d of strangers, %d misjudged; the gate counts %d, %d, %d",
			orphans, strangers, wrong, g.orphans, g.home.strangerLong, g.home.misjudged)
	}
	for c, n := range clients {
		if got := (tally{c.queued, c.running, c.misjudged}); got != n {
			t.Fatalf("a client has %+v, it counts %+v", n, got)
		}
	}
	accounts(s.Limiter, func(_ account.State, b *bucket) {
		if k := &b.Value; k.holds != holds[b] || k.orphans != left[b] {
			t.Fatalf("%v holds %d and left %d, its bucket says %d and %d", b.Key, holds[b], left[b], k.holds, k.orphans)
		}
	})
}

// checkStarts looks at those that the last call let go: a start only adds to what
// is held, so that after all of them there is no more than the last one found.
func (s *siege) checkStarts(t fataler) {
	g, n := s.gate, s.gate.limits
	most := map[*bucket]int{} // that a key may hold after what was let go
	started := [rungs]bool{}
	any := false
	for _, x := range s.tickets {
		was := s.phases[x]
		s.phases[x] = x.phase
		if was.running() || !x.phase.running() || g.delaysNone {
			continue
		}
		any = true
		if x.phase == probing || x.rung <= lightRung {
			continue
		}
		started[x.rung] = true
		for i := range x.reservations[:x.n] {
			if b := x.reservations[i].Bucket; b != nil && x.reservations[i].Terms.Workers > 0 {
				most[b] = max(most[b], s.mostHeld(x, i))
			}
		}
	}
	allowed := n.workers
	if g.workers.configured == 0 { // some short ones always go
		allowed = max(allowed, g.load.long()+keptForKnown)
	}
	if any && g.busy > allowed {
		t.Fatalf("%d at the backend of %d workers, want at most %d", g.busy, n.workers, allowed)
	}
	for r, started := range started {
		if rung(r) <= briefRung { // what soon ends may hold what short ones do not use
			continue
		}
		reserve := max(n.longMost, min(n.longMost+n.leastSlots, n.workers-keptForKnown))
		if held := from(&g.load.held, rung(r)); started && held > reserve {
			t.Fatalf("%d of %d workers are held on rung %d and longer, want at most %d", held, n.workers, r, reserve)
		}
	}
	for b, m := range most {
		if int(b.Value.holds) > m {
			t.Fatalf("%v holds %d workers, want at most %d", b.Key, b.Value.holds, m)
		}
	}
}

// mostHeld is how many workers the i-th key of a request that has just got one for
// long may hold, that one included.
func (s *siege) mostHeld(x *Ticket, i int) int {
	n := s.gate.limits
	return max(1, int(x.reservations[i].Terms.Workers*float32(n.longMost)))
}

// checkParked finds one who is parked though its keys hold few enough workers, and
// nobody wakes it for that.
func (s *siege) checkParked(t fataler) {
	g := s.gate
	for _, x := range g.home.parked {
		// Where another one is tried, it would have to go as one that is dear.
		if g.mayHold(x, true) && (x.level != fresh || g.load.probing == 0 || g.mayHold(x, false)) {
			t.Fatalf("one is parked that may hold a worker: level %d, sure %t, idle %g; %d of %d held, %d are tried",
				x.level, x.sure, x.likelyIdle, g.load.long(), g.limits.longMost, g.load.probing)
		}
	}
}

// TestWhoIsParkedIsWoken by more workers.
func TestWhoIsParkedIsWoken(t *testing.T) {
	s := newShift(t, 0)
	s.Found(s.now, 16, "php-fpm")
	s.polls(9, "a")
	s.expectState(t, "a part of 16 workers", map[string]int{"holding": 5, "queued": 4})
	s.Found(s.now, 40, "php-fpm")
	s.expectState(t, "a part of 40", map[string]int{"holding": 9, "queued": 0})
}
