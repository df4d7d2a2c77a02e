package limiter

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tempomat/limiter/account"
)

// siege is a gate under test, with all requests that it has seen, and the total cost of those that ran.
type siege struct {
	*world
	tickets []*Ticket
	phases  map[*Ticket]phase // before the last call
	clock   float64
	settled float64 // CPU-seconds
	spare   []*Ticket
}

func newSiege(p Policy) *siege {
	return &siege{world: newWorld(p), phases: map[*Ticket]phase{}}
}

// someLeaves reports whether a waiting request leaves room for clients that have used less. Other requests may
// then wait although a CPU is idle.
func (s *siege) someLeaves(q *levelQueue) bool {
	for _, x := range []*Ticket{q.underShare.top(), q.overShare.top(), q.strange.top()} {
		if x != nil && s.gate.leavesCPU(s.elapsed(), x) {
			return true
		}
	}
	return false
}

// forget drops the tickets that are over, because their memory is reused.
func (s *siege) forget() {
	kept := s.tickets[:0]
	for _, x := range s.tickets {
		if x.state != over {
			kept = append(kept, x)
		} else if x = x.Emptied(); x != nil {
			s.spare = append(s.spare, x)
			delete(s.phases, x)
		}
	}
	s.tickets = kept
}

// memory returns the memory of a ticket that is over, or nil if there is none.
func (s *siege) memory() *Ticket {
	n := len(s.spare)
	if n == 0 {
		return nil
	}
	x := s.spare[n-1]
	s.spare = s.spare[:n-1]
	return x
}

// pick draws one of the tickets for which of is true. It returns nil if there are none.
func (s *siege) pick(t *rapid.T, of func(*Ticket) bool) *Ticket {
	some := slices.DeleteFunc(slices.Clone(s.tickets), func(x *Ticket) bool { return !of(x) })
	if len(some) == 0 {
		return nil
	}
	return rapid.SampledFrom(some).Draw(t, "ticket")
}

func anyTicket(*Ticket) bool { return true }

func isRunning(x *Ticket) bool { return x.state == running }

// repeat makes the usual calls and those in more, in random order. It calls check after each of them.
func (s *siege) repeat(t *rapid.T, arrive func(*rapid.T), more map[string]func(*rapid.T), check func(fataler)) {
	calls := map[string]func(*rapid.T){
		"arrive": arrive, "arrive too": arrive, "and another": arrive,
		"progress": func(t *rapid.T) {
			if x := s.pick(t, isRunning); x != nil {
				s.Progress(s.now, x, time.Duration(rapid.Int64Range(0, 8e9).Draw(t, "so far")), rapid.Bool().Draw(t, "computes"))
			}
		},
		"settle": func(t *rapid.T) {
			if x := s.pick(t, isRunning); x != nil {
				cost := time.Duration(rapid.Int64Range(0, 7e9).Draw(t, "cost"))
				s.done(x, cost)
				s.settled += cost.Seconds()
			}
		},
		"leave": func(t *rapid.T) {
			if x := s.pick(t, anyTicket); x != nil {
				s.Leave(s.now, x)
			}
		},
		"measure":  func(t *rapid.T) { s.Measure(s.now, rapid.Float64Range(0, 1).Draw(t, "use")) },
		"later":    func(t *rapid.T) { s.now = s.now.Add(time.Duration(rapid.Int64Range(0, 4e9).Draw(t, "later"))) },
		"advance":  func(*rapid.T) { s.Advance(s.now) },
		"outlooks": func(t *rapid.T) { s.checkOutlooks(t) },
		"": func(t *rapid.T) {
			s.forget()
			check(t)
		},
	}
	maps.Copy(calls, more)
	t.Repeat(calls)
}

// TestGateAtRandom makes calls in random order. It checks all invariants after each call. At the end, it checks
// that nothing is left and nothing was lost.
func TestGateAtRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := roomy(Fair)
		s := newSiege(policy)
		arrive := func(t *rapid.T) {
			client := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "client")
			a := Arrival{
				Client: host(client), Others: networks(client + "/24"),
				Guess:         time.Duration(rapid.SampledFrom([]int{0, 1, 20, 100, 400, 1500, 6000, 9000}).Draw(t, "ms")) * time.Millisecond,
				Sure:          rapid.Bool().Draw(t, "sure"),
				Running:       time.Duration(rapid.SampledFrom([]int{0, 0, 20, 3000}).Draw(t, "running")) * time.Millisecond,
				Idle:          time.Duration(rapid.SampledFrom([]int{0, 0, 0, 900, 5000}).Draw(t, "idle")) * time.Millisecond,
				Standing:      rapid.SampledFrom([]float64{0, 0.5, 1, 4, 9}).Draw(t, "standing"),
				ClientsBehind: rapid.SampledFrom([]float64{0, 1, 4, 9}).Draw(t, "company"),
				Person:        rapid.SampledFrom([]float64{0, 0.3, 1}).Draw(t, "person"),
				Proven:        rapid.Bool().Draw(t, "proven"),
				Passed:        rapid.Bool().Draw(t, "passed"),
				Prefetch:      rapid.Bool().Draw(t, "prefetch"),
				Follows:       rapid.Bool().Draw(t, "follows"),
			}
			switch rapid.IntRange(0, 2).Draw(t, "who") {
			case 1: // a session of the address
				a.Within, a.Others = a.Others[0], nil
				a.Session, a.Client.ID = true, fmt.Sprint(client, "#", rapid.IntRange(0, 3).Draw(t, "session"))
				if rapid.Bool().Draw(t, "pooled") { // a pooled client
					a.Session, a.Pooled = false, true
				}
			case 2:
				a.Client, a.Others[0] = a.Others[0], a.Client
				a.Face = rapid.Uint8Range(0, 8).Draw(t, "face")
			}
			a.Memory = s.memory()
			x := s.Arrive(s.now, a)
			s.tickets = append(s.tickets, x)
		}
		s.repeat(t, arrive, map[string]func(*rapid.T){
			"reguess": func(t *rapid.T) {
				if x := s.pick(t, anyTicket); x != nil {
					e := Estimate{
						Guess:   time.Duration(rapid.SampledFrom([]int{0, 20, 90, 300, 1500, 9000}).Draw(t, "guess")) * time.Millisecond,
						Idle:    time.Duration(rapid.Int64Range(0, 3e9).Draw(t, "idle")),
						Running: time.Duration(rapid.Int64Range(0, 3e8).Draw(t, "running")),
						Sure:    rapid.Bool().Draw(t, "sure now"),
					}
					s.Reguess(s.now, x, e)
				}
			},
			"hold": func(t *rapid.T) {
				if x := s.pick(t, anyTicket); x != nil {
					s.Hold(s.now, x)
				}
			},
			"orphan": func(t *rapid.T) {
				if x := s.pick(t, anyTicket); x != nil {
					s.Orphan(s.now, x)
				}
			},
			"backlog": func(t *rapid.T) {
				s.Backlog(s.now, rapid.IntRange(0, 3).Draw(t, "queued"), rapid.IntRange(0, 9).Draw(t, "processes"), rapid.IntRange(0, 3).Draw(t, "full"))
			},
			"found": func(t *rapid.T) { s.Found(s.now, rapid.IntRange(0, 6).Draw(t, "found"), "php-fpm") },
			"policy": func(t *rapid.T) {
				policy.Mode = rapid.SampledFrom([]Mode{Fair, Fair, Observe, Cap, Cooperative}).Draw(t, "mode")
				policy.Gate.Workers = rapid.SampledFrom([]int{0, 1, 3, 4, 5, 6}).Draw(t, "workers")
				policy.Gate.Heavy = rapid.IntRange(0, 3).Draw(t, "heavy")
				s.SetPolicy(s.now, policy)
				s.Advance(s.now) // as requested by the limiter
			},
			"shown": func(t *rapid.T) { s.checkShown(t) },
		}, s.check)
		s.empty(t)
	})
}

// empty ends all requests, and checks that nothing is left.
func (s *siege) empty(t fataler) {
	for _, x := range s.tickets {
		s.Leave(s.now, x)
	}
	s.forget()
	s.check(t)
	g := s.GateState()
	if g.LongBusy != 0 || g.Orphans != 0 || s.gate.home.strangerLong != 0 {
		t.Fatalf("all requests have ended: %+v, strangers' long requests %d", g, s.gate.home.strangerLong)
	}
	if s.gate.load != (load{}) || s.gate.home.clock.active != 0 || s.gate.home.misjudged != (misjudged{}) {
		t.Fatalf("all requests have ended: %+v, shares of %g, %v misjudged", s.gate.load, s.gate.home.clock.active, s.gate.home.misjudged)
	}
	if g.Busy != 0 || g.Queued != 0 || len(s.tickets) != 0 || s.Held() != 0 {
		t.Fatalf("all requests have ended: %+v, %d held", g, s.Held())
	}
	total := map[string]float64{}
	accounts(s.Limiter, func(x account.State, b *bucket) {
		total[x.Key.Class] += x.Charged
		if k := &b.Value; x.Running != 0 || x.Waiting != 0 || x.Held != 0 || k.holds != 0 || k.orphans != 0 {
			t.Fatalf("%+v is left, holds %d, %d orphans", x, k.holds, k.orphans)
		}
		if c := b.Value.client.Load(); c != nil && (c.work != 0 || c.queued != 0 || c.running != 0 || c.misjudged != 0 || c.lanes != nil || c.address.n != 0 || c.address.active != nil) {
			t.Fatalf("%v still has work: %+v", b.Key, c)
		}
	})
	for class, x := range total {
		if math.Abs(x-s.settled) > 1e-6*(1+s.settled) {
			t.Fatalf("%s was charged %g in total, but the requests that ran cost %g", class, x, s.settled)
		}
	}
}

// roomy returns a policy under which no charge is reduced, because debt has no limit.
func roomy(m Mode) Policy {
	p := Policy{
		Mode: m, MaxHold: 30 * second, MaxHeld: 8, Memory: 1e6 * time.Second,
		Gate: GateOptions{CPUs: 1, Workers: 5, Heavy: 2},
	}
	for _, class := range []string{"slash32", "slash24"} {
		p.Classes = append(p.Classes, ClassInfo{class, Budget{CPUs: 0.1, Burst: second, Workers: 0.5}})
	}
	return p
}
