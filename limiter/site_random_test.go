package limiter

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tempomat/limiter/account"
)

// checkSites counts the requests and shares of each site and compares them with the gate's. It returns how
// many sites have requests.
func (s *siege) checkSites(t fataler) int {
	g := s.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	type tally struct{ busy, queued, strangerLong int }
	counts, active := map[*site]tally{}, map[*site]map[*flow]bool{}
	for _, x := range s.tickets {
		if x.phase == outside {
			continue
		}
		if x.client.site != x.site {
			t.Fatalf("a client of site %q has a request for %q", x.client.site.name, x.site.name)
		}
		n := counts[x.site]
		if active[x.site] == nil {
			active[x.site] = map[*flow]bool{}
		}
		active[x.site][x.flow] = true
		if x.phase == queued {
			n.queued++
		} else {
			n.busy++
		}
		if x.phase.running() && x.phase != probing && x.rung > lightRung {
			if x.stranger {
				n.strangerLong++
			}
		}
		counts[x.site] = n
	}
	all := 0.0
	for of, want := range counts {
		if got := (tally{of.busy, of.queued, of.strangerLong}); got != want {
			t.Fatalf("site %q has %+v, but counts %+v", of.name, want, got)
		}
		if g.delaysNone && of.queued > 0 {
			t.Fatalf("%d requests wait for site %q, but none should", of.queued, of.name)
		}
		if slices.Contains(g.contending, of) != (want.queued > 0) {
			t.Fatalf("%d requests wait for site %q; the site contends: %t", want.queued, of.name, want.queued == 0)
		}
		sum := 0.0
		for f := range active[of] {
			sum += f.share
		}
		if math.Abs(sum-of.clock.active) > 1e-9 {
			t.Fatalf("the shares of flows with work at site %q are %g, but its clock has %g", of.name, sum, of.clock.active)
		}
		all += of.among.share
		s.checkHeaps(t, of)
	}
	if math.Abs(all-g.clock.active) > 1e-9 {
		t.Fatalf("the shares of the sites with work are %g, but the clock has %g", all, g.clock.active)
	}
	return len(counts)
}

func (s *siege) checkHeaps(t fataler, of *site) {
	heads := 0
	for _, h := range of.heaps() {
		for _, x := range *h {
			if heads++; x.site != of || x.phase != queued {
				t.Fatalf("a request of site %q in phase %d is in a heap of %q", x.site.name, x.phase, of.name)
			}
		}
	}
	if of.queued > 0 && heads == 0 {
		t.Fatalf("%d requests wait for site %q and none competes", of.queued, of.name)
	}
	if tag := of.among.virtualTime; math.IsNaN(tag) || math.IsInf(tag, 0) {
		t.Fatalf("site %q has the tag %g", of.name, tag)
	}
	if from(&s.gate.load.computing, 0) >= s.gate.limits.slots || s.gate.busy >= s.gate.limits.workers {
		return
	}
	for r := range rung(rungs) { // requests that are held back for another site may not wait while a CPU may be idle
		if q := &of.queues[r]; s.someLeaves(q) && s.gate.load.long() < s.gate.limits.longMost && len(s.gate.contending) == 1 {
			t.Fatalf("a request of rung %d of site %q waits although a CPU is idle", r, of.name)
		}
	}
}

// TestSitesAtRandom makes calls in random order at a gate with sites, which are also added and removed. It
// checks all invariants after each step, and that nothing is left at the end.
func TestSitesAtRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := roomy(Fair)
		policy.Sites = []SiteInfo{{Name: "a"}, {Name: "b", Share: 3}}
		s, peak := newSiege(policy), 0 // the largest number of sites with requests at the same time
		arrive := func(t *rapid.T) {
			client := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "client")
			a := Arrival{
				Client: host(client), Others: networks(client + "/24"), Memory: s.memory(),
				Site:   rapid.SampledFrom([]string{"", "a", "b", "c", "d", "e", "f", "invented"}).Draw(t, "site"),
				Guess:  time.Duration(rapid.SampledFrom([]int{1, 20, 100, 400, 1500, 6000}).Draw(t, "ms")) * time.Millisecond,
				Idle:   time.Duration(rapid.SampledFrom([]int{0, 0, 5000}).Draw(t, "idle")) * time.Millisecond,
				Sure:   rapid.Bool().Draw(t, "sure"),
				Proven: rapid.Bool().Draw(t, "proven"),
			}
			switch rapid.IntRange(0, 2).Draw(t, "who") {
			case 1:
				a.Within, a.Others = a.Others[0], nil
				a.Session, a.Client.ID = true, client+rapid.SampledFrom([]string{"#1", "#2"}).Draw(t, "session")
				if rapid.Bool().Draw(t, "pooled") {
					a.Session, a.Pooled = false, true
				}
			case 2:
				a.Face = rapid.Uint8Range(0, 3).Draw(t, "face")
			}
			s.tickets = append(s.tickets, s.Arrive(s.now, a))
		}
		s.repeat(t, arrive, map[string]func(*rapid.T){
			"and one more": arrive,
			"policy": func(t *rapid.T) {
				policy.Sites = nil
				for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
					if rapid.Bool().Draw(t, name) {
						policy.Sites = append(policy.Sites, SiteInfo{
							Name: name, Share: rapid.SampledFrom([]float64{0, 0.1, 5}).Draw(t, "share"),
						})
					}
				}
				policy.Mode = rapid.SampledFrom([]Mode{Fair, Fair, Observe}).Draw(t, "all")
				policy.Gate.Workers = rapid.SampledFrom([]int{0, 4, 6}).Draw(t, "workers")
				s.SetPolicy(s.now, policy)
				s.Advance(s.now)
			},
		}, func(t fataler) { peak = max(peak, s.checkSites(t)) })
		for _, x := range s.tickets {
			s.Leave(s.now, x)
		}
		s.forget()
		s.checkSites(t)
		if g := s.gate; g.clock.active != 0 || len(g.contending) > 0 || g.load != (load{}) || g.busy != 0 || len(s.tickets) > 0 {
			t.Fatalf("all requests have ended: shares of %g, %d sites contend, %+v, %d busy", g.clock.active, len(g.contending), g.load, g.busy)
		}
		s.checkVisits(t, peak)
	})
}

// checkVisits checks, after all requests have ended, at how many sites each client is remembered: at a few, or
// at most at as many as had requests at the same time.
func (s *siege) checkVisits(t fataler, peak int) {
	accounts(s.Limiter, func(_ account.State, b *bucket) {
		for c, n := b.Value.client.Load(), 0; c != nil; c = c.elsewhere {
			if n++; n > 2+max(mostElsewhere, peak) || c.work != 0 || c.queued != 0 || c.running != 0 || c.lanes != nil {
				t.Fatalf("%v still has work at %q, or is remembered at too many sites (%d): %+v", b.Key, c.site.name, n, c)
			}
		}
	})
}
