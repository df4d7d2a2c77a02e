package limiter

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// siege is a gate under test: all requests that it has ever seen, and what must
// have been charged for those that ran.
type siege struct {
	*world
	tickets []*Ticket
	ranks   map[*Ticket]float64
	stages  map[*Ticket]stage // before the last call
	clock   float64
	settled float64 // CPU-seconds
}

// check finds what does not hold of the gate between two calls.
func (s *siege) check(t interface{ Fatalf(string, ...any) }) {
	g := s.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	count := map[stage]int{}
	strangers, active := 0, map[*flow]bool{}
	for _, x := range s.tickets {
		count[x.stage]++
		if x.stage == express && x.flow == &g.strangers {
			strangers++
		}
		if x.stage != outside {
			active[x.flow] = true
		}
		if x.stage == queued {
			isHead := x.lane().first == x
			if isHead != (x.heap != nil) || isHead && (*x.heap)[x.index] != x {
				t.Fatalf("only the head of a lane is in a heap, at its place")
			}
			if r, was := s.ranks[x]; isHead && was && x.rank > r {
				t.Fatalf("the rank of one who waits grew from %g to %g", r, x.rank)
			}
			if isHead {
				s.ranks[x] = x.rank
			}
		}
	}
	for name, c := range map[string][2]int{
		"waiting": {count[queued], g.queued}, "express": {count[express], g.expressBusy}, "heavy": {count[heavy], g.heavyBusy},
		"probes": {count[probe], g.probing}, "holding": {count[holding], g.holding},
		"long": {count[heavy] + count[probe] + count[holding], g.longBusy}, "strangers": {strangers, g.strangerBusy},
		"running": {count[express] + count[heavy] + count[probe] + count[holding], g.busy}, "hint": {g.queued, int(g.waiting.Load())},
	} {
		if c[0] != c[1] {
			t.Fatalf("%s: %d, the gate counts %d", name, c[0], c[1])
		}
	}
	sum := 0.0
	for f := range active {
		sum += f.share
	}
	if math.Abs(sum-g.active) > 1e-9 {
		t.Fatalf("the shares of those with work are %g, the gate says %g", sum, g.active)
	}
	if g.clock < s.clock {
		t.Fatalf("the clock went back from %g to %g", s.clock, g.clock)
	}
	s.clock = g.clock
	if g.open && g.queued > 0 {
		t.Fatalf("%d wait at an open gate", g.queued)
	}
	s.checkHolds(t)
	s.checkStarts(t)
	if !g.open {
		s.checkWork(t)
		s.checkParked(t)
	}
}

// checkWork finds a slot that is free while somebody waits who may have it.
func (s *siege) checkWork(t interface{ Fatalf(string, ...any) }) {
	g, n := s.gate, s.gate.limits
	if g.busy >= n.workers {
		return
	}
	free := g.expressBusy < n.express
	switch {
	case g.light.top() != nil && free:
		t.Fatalf("a light request waits before a free express slot")
	case g.strange.top() != nil && free && g.strangerBusy < n.strangers:
		t.Fatalf("a stranger's light request waits before a free express slot")
	case g.longBusy >= n.long:
	case (g.heavy.top() != nil || g.unknown.top() != nil) && g.heavyBusy < n.heavy:
		t.Fatalf("a request waits before a free heavy slot")
	case g.waits.top() != nil && g.holding < n.long-n.least:
		t.Fatalf("a request that needs no CPU waits before a free worker")
	}
}

// forget leaves out the tickets that are over.
func (s *siege) forget() {
	kept := s.tickets[:0]
	for _, x := range s.tickets {
		if x.state != over {
			kept = append(kept, x)
		}
	}
	s.tickets = kept
}

// TestGateAtRandom calls everything in any order, and checks all that must hold
// after each call, and that nothing is left and nothing was lost at the end.
func TestGateAtRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := roomy(Fair)
		s := &siege{world: newWorld(policy), ranks: map[*Ticket]float64{}, stages: map[*Ticket]stage{}}
		pick := func(of func(*Ticket) bool) *Ticket {
			var some []*Ticket
			for _, x := range s.tickets {
				if of(x) {
					some = append(some, x)
				}
			}
			if len(some) == 0 {
				return nil
			}
			return rapid.SampledFrom(some).Draw(t, "ticket")
		}
		running := func(x *Ticket) bool { return x.state == running }
		any := func(*Ticket) bool { return true }
		arrive := func(t *rapid.T) {
			client := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "client")
			x := s.Arrive(s.now, Arrival{
				Keys:     by(client, client+"/24"),
				Guess:    time.Duration(rapid.SampledFrom([]int{0, 1, 20, 100, 400, 6000}).Draw(t, "ms")) * time.Millisecond,
				Sure:     rapid.Bool().Draw(t, "sure"),
				Idle:     time.Duration(rapid.SampledFrom([]int{0, 0, 0, 900, 5000}).Draw(t, "idle")) * time.Millisecond,
				Standing: rapid.SampledFrom([]float64{0, 0.5, 1, 4, 9}).Draw(t, "standing"),
				Proven:   rapid.Bool().Draw(t, "proven"),
			})
			s.tickets = append(s.tickets, x)
		}
		t.Repeat(map[string]func(*rapid.T){
			"arrive": arrive, "arrive too": arrive, "and another": arrive,
			"progress": func(t *rapid.T) {
				if x := pick(running); x != nil {
					s.Progress(s.now, x, time.Duration(rapid.Int64Range(0, 8e9).Draw(t, "so far")), rapid.Bool().Draw(t, "computes"))
				}
			},
			"settle": func(t *rapid.T) {
				if x := pick(running); x != nil {
					cost := time.Duration(rapid.Int64Range(0, 7e9).Draw(t, "cost"))
					s.Settle(s.now, x, cost)
					s.Leave(s.now, x)
					s.settled += cost.Seconds()
				}
			},
			"leave": func(t *rapid.T) {
				if x := pick(any); x != nil {
					s.Leave(s.now, x)
				}
			},
			"reguess": func(t *rapid.T) {
				if x := pick(any); x != nil {
					s.Reguess(s.now, x, Estimate{
						Guess:   time.Duration(rapid.Int64Range(0, 3e8).Draw(t, "guess")),
						Idle:    time.Duration(rapid.Int64Range(0, 3e9).Draw(t, "idle")),
						Running: time.Duration(rapid.Int64Range(0, 3e8).Draw(t, "running")),
						Sure:    rapid.Bool().Draw(t, "sure now"),
					})
				}
			},
			"hold": func(t *rapid.T) {
				if x := pick(any); x != nil {
					s.Hold(s.now, x)
				}
			},
			"orphan": func(t *rapid.T) {
				if x := pick(any); x != nil {
					s.Orphan(s.now, x)
				}
			},
			"answering": func(t *rapid.T) {
				if x := pick(any); x != nil {
					s.Answering(s.now, x)
				}
			},
			"backlog": func(t *rapid.T) { s.Backlog(s.now, rapid.IntRange(0, 3).Draw(t, "queued")) },
			"tried": func(t *rapid.T) {
				if n := s.Wants(s.now); n > 0 {
					s.Tried(s.now, n, rapid.IntRange(0, n).Draw(t, "not accepted"))
				}
			},
			"found":   func(t *rapid.T) { s.Found(s.now, rapid.IntRange(0, 6).Draw(t, "found"), "somebody") },
			"measure": func(t *rapid.T) { s.Measure(s.now, rapid.Float64Range(0, 1).Draw(t, "use")) },
			"later":   func(t *rapid.T) { s.now = s.now.Add(time.Duration(rapid.Int64Range(0, 4e9).Draw(t, "later"))) },
			"advance": func(*rapid.T) { s.Advance(s.now) },
			"policy": func(t *rapid.T) {
				policy.Mode = rapid.SampledFrom([]Mode{Fair, Fair, Observe, Cap, Cooperative}).Draw(t, "mode")
				policy.Gate.Workers = rapid.SampledFrom([]int{0, 1, 3, 4, 5, 6}).Draw(t, "workers")
				policy.Gate.Heavy = rapid.IntRange(0, 3).Draw(t, "heavy")
				s.SetPolicy(s.now, policy)
				s.Advance(s.now) // as it asks for it
			},
			"": func(t *rapid.T) {
				s.forget()
				s.check(t)
			},
		})
		s.empty(t)
	})
}

// empty has everybody leave, and looks what is left.
func (s *siege) empty(t interface{ Fatalf(string, ...any) }) {
	for _, x := range s.tickets {
		s.Leave(s.now, x)
	}
	s.forget()
	s.check(t)
	g := s.GateState()
	if g.LongBusy != 0 || g.Orphans != 0 || s.gate.strangerLong != 0 || s.gate.trying != 0 || s.gate.workers.late != 0 {
		t.Fatalf("all have left: %+v, strangers %d, trials %d, late %d", g, s.gate.strangerLong, s.gate.trying, s.gate.workers.late)
	}
	if g.Busy != 0 || g.Queued != 0 || len(s.tickets) != 0 || s.Held() != 0 {
		t.Fatalf("all have left: %+v, %d held", g, s.Held())
	}
	total := map[string]float64{}
	for i := range s.table.shards {
		s.table.shards[i].each(func(b *bucket) {
			total[b.key.Class] += b.total
			if b.pins != 0 || b.held != 0 || b.holds != 0 || b.orphans != 0 {
				t.Fatalf("%v is still pinned %d times, held %d, holds %d, %d orphans", b.key, b.pins, b.held, b.holds, b.orphans)
			}
			if c := b.client.Load(); c != nil && (c.work != 0 || c.queued != 0 || c.expressBusy != 0 || c.light.n != 0 || c.heavy.n != 0 || c.waits.n != 0) {
				t.Fatalf("%v still has work: %+v", b.key, c)
			}
		})
	}
	for class, x := range total {
		if math.Abs(x-s.settled) > 1e-6*(1+s.settled) {
			t.Fatalf("%s was charged %g in all, what ran cost %g", class, x, s.settled)
		}
	}
}

// roomy is a policy under which no charge is cut: the buckets have no bottom.
func roomy(m Mode) Policy {
	p := Policy{
		Mode: m, MaxHold: 30 * second, MaxHeld: 8, MaxHeldPerClient: 4, Memory: 1e6 * time.Second,
		Gate: Gate{CPUs: 1, Workers: 5, Heavy: 2},
	}
	for _, class := range []string{"slash32", "slash24"} {
		p.Classes = append(p.Classes, ClassInfo{class, Budget{CPUs: 0.1, Burst: second, Workers: 0.5}})
	}
	return p
}
