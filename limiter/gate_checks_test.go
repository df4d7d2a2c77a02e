package limiter

import "math"

// fataler is a testing.T or a rapid.T.
type fataler interface{ Fatalf(string, ...any) }

// check fails if an invariant of the gate doesn't hold between two calls.
func (s *siege) check(t fataler) {
	g := s.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	s.checkCounts(t)
	s.checkShares(t)
	for _, x := range s.tickets {
		if x.phase == queued {
			s.checkPlace(t, x)
		}
	}
	if g.home.clock.systemVirtualTime < s.clock {
		t.Fatalf("the clock went back from %g to %g", s.clock, g.home.clock.systemVirtualTime)
	}
	s.clock = g.home.clock.systemVirtualTime
	if g.delaysNone && g.all.n > 0 {
		t.Fatalf("%d requests wait at an open gate", g.all.n)
	}
	s.checkHolds(t)
	s.checkStarts(t)
	s.checkLevels(t)
	if !g.delaysNone {
		s.checkWork(t)
		s.checkParked(t)
	}
}

// checkCounts counts the requests in each state and compares the counts with the gate's.
func (s *siege) checkCounts(t fataler) {
	g := s.gate
	var want load
	busy, waiting := 0, 0
	for _, x := range s.tickets {
		switch x.phase {
		case probing:
			want.probing++
		case computing:
			want.compute(x, 1)
			want.held[x.rung]++
		case holding:
			want.holding++
			want.held[x.rung]++
		case queued:
			waiting++
		case outside:
		}
		if x.phase.running() {
			busy++
		}
	}
	if want != g.load {
		t.Fatalf("there are %+v, the gate counts %+v", want, g.load)
	}
	if busy != g.busy || waiting != g.all.n || waiting != int(g.waiting.Load()) {
		t.Fatalf("%d run and %d wait; the gate counts %d and %d, and its atomic counter says %d", busy, waiting, g.busy, g.all.n, g.waiting.Load())
	}
	n := 0
	var last *Ticket
	for x := g.all.first; x != nil; x, last = x.links[byAge].behind, x {
		if n++; x.phase != queued || x.links[byAge].before != last {
			t.Fatalf("the list of waiting requests is broken at position %d", n)
		}
	}
	if g.all.last != last {
		t.Fatalf("the last waiting request isn't %v", g.all.last)
	}
	if n != waiting {
		t.Fatalf("the list contains %d of the %d waiting requests", n, waiting)
	}
}

// checkShares sums the shares of flows with work, and those of each address, and compares them with the gate's.
func (s *siege) checkShares(t fataler) {
	active, addresses := map[*flow]bool{}, map[*address]map[*client]bool{}
	for _, x := range s.tickets {
		if x.phase == outside {
			continue
		}
		active[x.flow] = true
		a := x.client.address
		if addresses[a] == nil {
			addresses[a] = map[*client]bool{}
		}
		if !x.stranger {
			addresses[a][x.client] = true
		}
	}
	sum := 0.0
	for f := range active {
		sum += f.share
	}
	if math.Abs(sum-s.gate.home.clock.active) > 1e-9 {
		t.Fatalf("the shares of flows with work are %g, but the gate has %g", sum, s.gate.home.clock.active)
	}
	for a, clients := range addresses {
		n, alone, shares := 0, 0.0, 0.0
		for c := a.active; c != nil; c = c.beside {
			if n++; !clients[c] || c.beside != nil && c.beside.beforeIt != c {
				t.Fatalf("the list of an address's clients with work is broken at position %d", n)
			}
			alone, shares = max(alone, c.alone), shares+c.share
		}
		if n != a.n || n != len(clients) {
			t.Fatalf("%d clients of an address have work; its list contains %d and counts %d", len(clients), n, a.n)
		}
		if shares > 8*alone+1e-9 {
			t.Fatalf("the %d clients of an address have shares of %g, the largest of them alone %g", n, shares, alone)
		}
	}
}

// checkPlace checks the place of one waiting request.
func (s *siege) checkPlace(t fataler, x *Ticket) {
	isHead := x.lane.first == x
	if isHead != (x.heap != nil) || isHead && (*x.heap)[x.index] != x {
		t.Fatalf("a request is in a heap although it isn't the head of its lane, or a head isn't at its place in a heap")
	}
	if !isHead {
		return
	}
	if q := &s.gate.home.queues[x.level]; x.heap != &s.gate.home.parked && x.heap != &q.underShare && x.heap != &q.overShare && x.heap != &q.strange {
		t.Fatalf("a request of level %d is in the heap of another level", x.level)
	}
}

// checkLevels checks that each heap is in order and holds only requests that belong there.
func (s *siege) checkLevels(t fataler) {
	for i := range s.gate.home.queues {
		q := &s.gate.home.queues[i]
		for j, h := range []headHeap{q.underShare, q.overShare, q.strange} {
			for k, x := range h {
				if k > 0 && x.precedes(h[(k-1)/2]) {
					t.Fatalf("heap %d of level %d is out of order", j, i)
				}
				if x.level != level(i) || x.stranger != (j == 2) || !x.stranger && x.overShare != (j == 1) {
					t.Fatalf("a request of level %d, stranger %t, ahead %t, is in heap %d of level %d", x.level, x.stranger, x.overShare, j, i)
				}
				if x.stranger && x.rank < 0 && !s.gate.home.strangers.newest {
					t.Fatalf("a stranger has the rank %g, although newest-first is %t", x.rank, s.gate.home.strangers.newest)
				}
			}
		}
	}
}

// checkWork fails if a request waits although there is room and a worker for it.
func (s *siege) checkWork(t fataler) {
	g, n := s.gate, &s.gate.limits
	if g.busy >= n.workers || g.all.n == len(g.home.parked) {
		return
	}
	if from(&g.load.computing, 0) < n.slots {
		for r := range rung(rungs) {
			if q := &g.home.queues[r]; s.someLeaves(q) && from(&g.load.held, lightRung+1) < n.longMost {
				t.Fatalf("a request of rung %d waits, although %d of %d compute, and %d of %d workers are busy", r, from(&g.load.computing, 0), n.slots, g.busy, n.workers)
			}
		}
	}
	alike, ahead := 0, 0
	for r := range rung(rungs) {
		ahead += g.load.overShare[r]
		if alike += g.load.computing[r]; r > lightRung && g.load.long() >= n.longMost {
			break
		}
		alike := alike
		if r+1 < rungs {
			alike += g.load.low[r+1] // a request of the upper half of a rung also counts these
		}
		if q := &g.home.queues[r]; (len(q.underShare) > 0 || r <= passRung && len(q.overShare)+len(q.strange) > 0) && alike < n.slots || alike-ahead < n.slots && g.passes(r) && len(q.underShare) > 0 {
			t.Fatalf("a request of rung %d waits, although only %d as short compute, %d of them of clients over their share; there is room for %d", r, alike, ahead, n.slots)
		}
	}
	for r := lightRung + 1; r < rungs; r++ {
		if !g.home.queues[waitsAt(r)].empty() && g.load.long() < n.longMost && g.load.holding < n.longMost-n.leastSlots {
			t.Fatalf("a request that needs no CPU waits although a worker is free")
		}
	}
}
