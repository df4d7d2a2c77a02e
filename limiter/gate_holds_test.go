package limiter

import "tempomat/limiter/account"

// These invariants concern requests that hold a worker for long. They are true between two calls.

// checkHolds counts held workers again: in total, for each key and for each client.
func (s *siege) checkHolds(t fataler) {
	g := s.gate
	orphans, strangers, wrong := 0, 0, 0
	holds, brief, left := map[*bucket]int32{}, map[*bucket]int32{}, map[*bucket]int32{}
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
			if long && x.sure && x.rung <= briefRung && !x.uploads && !x.level.short() {
				brief[sl.Bucket]++
			}
			if x.orphan {
				left[sl.Bucket]++
			}
		})
	}
	if orphans != g.orphans || strangers != g.home.strangerLong || wrong != g.home.misjudged.known+g.home.misjudged.strange {
		t.Fatalf("%d orphans, %d long requests of strangers, %d misjudged; the gate counts %d, %d, %d",
			orphans, strangers, wrong, g.orphans, g.home.strangerLong, g.home.misjudged)
	}
	for c, n := range clients {
		if got := (tally{c.queued, c.running, c.misjudged}); got != n {
			t.Fatalf("a client has %+v, but counts %+v", n, got)
		}
	}
	accounts(s.Limiter, func(_ account.State, b *bucket) {
		if k := &b.Value; k.holds != holds[b] || k.brief != brief[b] || k.orphans != left[b] {
			t.Fatalf("%v holds %d, %d of them briefly, and has %d orphans, but its bucket counts %d, %d and %d",
				b.Key, holds[b], brief[b], left[b], k.holds, k.brief, k.orphans)
		}
	})
}

// checkStarts checks the requests that the last call started. Starts only add to the held workers, so after all
// starts, the number of held workers is at most what the last start was allowed.
func (s *siege) checkStarts(t fataler) {
	g, n := s.gate, s.gate.limits
	most := map[*bucket]int{} // the most that a key may hold after the starts
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
	if g.workers.configured == 0 { // some short requests may always start
		allowed = max(allowed, g.load.long()+keptForKnown)
	}
	if any && g.busy > allowed {
		t.Fatalf("%d at the backend of %d workers, want at most %d", g.busy, n.workers, allowed)
	}
	for r, started := range started {
		if rung(r) <= briefRung { // requests that end soon may hold the workers that short ones don't use
			continue
		}
		reserve := max(n.longMost, min(n.longMost+n.leastSlots, n.workers-keptForKnown))
		if held := from(&g.load.held, rung(r)); started && held > reserve {
			t.Fatalf("%d of %d workers are held on rung %d and longer, want at most %d", held, n.workers, r, reserve)
		}
	}
	for b, m := range most {
		if k := &b.Value; int(k.holds-k.brief) > m || int(k.holds) > max(m, n.longMost) {
			t.Fatalf("%v holds %d workers, %d of them briefly, want at most %d", b.Key, k.holds, k.brief, m)
		}
	}
}

// mostHeld returns how many workers the i-th key of a request may hold if the request has just started and
// will hold its worker for long. The request itself counts.
func (s *siege) mostHeld(x *Ticket, i int) int {
	n := s.gate.limits
	return max(1, int(x.reservations[i].Terms.Workers*float32(n.longMost)))
}

// checkParked fails if a request is parked although its keys hold few enough workers: nothing would unpark it.
func (s *siege) checkParked(t fataler) {
	g := s.gate
	for _, x := range g.home.parked {
		// While another request is a probe, this one would have to start as an expensive one.
		if g.mayHold(x, true) && (x.level != fresh || g.load.probing == 0 || g.mayHold(x, false)) {
			t.Fatalf("a parked request may hold a worker: level %d, sure %t, idle %g; %d of %d held, %d probes",
				x.level, x.sure, x.likelyIdle, g.load.long(), g.limits.longMost, g.load.probing)
		}
	}
}
