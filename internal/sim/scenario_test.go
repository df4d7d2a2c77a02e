package sim

import (
	"fmt"
	"math"
	"testing"

	"tempomat/limiter"
)

// bound is the largest 95th percentile of the latency that a scenario may have for a kind of client, in
// milliseconds or as a multiple of that of the idle site.
type bound struct {
	kind      string
	p95, idle float64
}

func bounds() map[string][]bound {
	b := map[string][]bound{
		"mixed": {{"human", 100, 0}, {"nat", 200, 0}},
		"nat":   {{"nat", 0, 2}},
		// Two seconds after a restart, the bound is three times the latency of the idle site.
		"restart":          {{"human", 0, 3}},
		"oneshot-samepath": {{"human", 0, 2.5}},
		"lightflood":       {{"human", 0, 3.5}},
		"nat+crawl1":       {{"human", 0, 3}, {"nat", 200, 0}},
		"nat+dist120":      {{"human", 0, 3}, {"nat", 200, 0}},
		"export":           {{"human", 0, 1.5}, {"admin", 0, 2}},
		"flatnat":          {{"human", 0, 1.6}, {"nat", 0, 1.6}},
	}
	for _, name := range []string{"crawl1", "net24", "uachrome", "dist120", "flood", "oneshot", "lightshot"} {
		b[name] = []bound{{"human", 0, 2}}
	}
	for _, name := range []string{"flat1", "flat120", "flat120think", "flatshot"} {
		b[name] = []bound{{"human", 0, 1.6}}
	}
	return b
}

// TestScenarios plays the regular scenarios, on all machines. A full run includes the rare ones.
func TestScenarios(t *testing.T) {
	idle := map[string]float64{}
	playTable(t, chosen(Scenarios()), func(s Scenario, results map[string]result) {
		if s.Name == s.Idle {
			idle[s.Name] = results["human"].p95
		}
		check(t, s, results, idle[s.Idle])
	})
	playTable(t, chosen(Machines()), nil)
}

func check(t *testing.T, s Scenario, results map[string]result, idle float64) {
	t.Helper()
	why, late := pending()[s.Name]
	missed := false
	for _, b := range bounds()[s.Name] {
		r, most := results[b.kind], b.p95
		if b.idle > 0 {
			most = b.idle * idle
		}
		if over := !(r.p95 <= most) || r.failed > 0; over && late {
			missed = true
		} else if over {
			t.Errorf("%s: %s p95 %.0f ms, %.2f%% failed; want at most %.0f ms and no failures", s.Name, b.kind, r.p95, 100*r.failed, most)
		}
		if r.waiting < 0.98 {
			t.Errorf("%s: %.1f%% of the CPUs were used while requests waited, want 98%%", s.Name, 100*r.waiting)
		}
	}
	if late && !missed && !scatters(why) {
		t.Errorf("%s is pending (%s), but meets its bounds", s.Name, why)
	}
	if s.Name == "lone" && results["attack"].used < 0.95 {
		t.Errorf("a lone crawler uses %.1f%% of an idle server", 100*results["attack"].used)
	}
}

// TestWithoutTheGate checks that the scenarios really are attacks.
func TestWithoutTheGate(t *testing.T) {
	for _, s := range Scenarios() {
		if s.Name != "crawl1" && s.Name != "dist120" {
			continue
		}
		if r := play(t, s, limiter.Observe, "human")["human"]; !(r.p95 > 1000) {
			t.Errorf("%s isn't an attack: p95 %.0f ms without the gate", s.Name, r.p95)
		}
	}
}

// TestSameSeedSameRun checks that a run can be repeated.
func TestSameSeedSameRun(t *testing.T) {
	run := func(seed uint64) float64 {
		s := Scenarios()[1]
		w := newWorld(t, seed, s, limiter.Fair)
		w.Run(s.Clients(), Attack, Attack+5)
		return w.Percentile("human", .5) + w.Percentile("human", .99)
	}
	if a, b := run(7), run(7); a != b || math.IsNaN(a) {
		t.Errorf("two runs with one seed differ: %v and %v", a, b)
	}
	if run(7) == run(8) {
		t.Error("two seeds give the same run")
	}
}

// TestMaxMin checks the oracle with cases that can be computed by hand.
func TestMaxMin(t *testing.T) {
	for _, c := range []struct {
		capacity float64
		claims   []Claim
		want     []float64
	}{
		{2, []Claim{{1, 9}, {1, 9}}, []float64{1, 1}},
		{2, []Claim{{1, 0.5}, {1, 9}}, []float64{0.5, 1.5}},
		{2, []Claim{{1, 9}, {3, 9}}, []float64{0.5, 1.5}},
		{10, []Claim{{1, 2}, {1, 3}}, []float64{2, 3}},
		{6, []Claim{{1, 1}, {2, 2.5}, {1, 9}}, []float64{1, 2.5, 2.5}},
		{1, nil, nil},
	} {
		got := MaxMin(c.capacity, c.claims)
		for i := range c.want {
			if math.Abs(got[i]-c.want[i]) > 1e-9 {
				t.Errorf("%v of %g: got %v, want %v", c.claims, c.capacity, got, c.want)
				break
			}
		}
	}
}

// TestGateIsMaxMinFair plays crawlers with different loads and standings at one site, and compares the CPU time
// that each gets with the oracle's result.
func TestGateIsMaxMinFair(t *testing.T) {
	s := Scenarios()[0]
	var clients []*Client
	var claims []Claim
	add := func(c *Client, weight, wants float64) {
		i := len(clients)
		c.Kind, c.Address, c.Agent = fmt.Sprint("client ", i), uint32(0x30000001+i*0x10000), robot(i)
		c.Timeout, c.Retry = 30, 0.1
		clients, claims = append(clients, c), append(claims, Claim{weight, wants})
	}
	page := []Page{{Path: "/a", CPU: heavyPage, Exact: true}}
	for range 3 {
		add(&Client{Parallel: 4, Pages: page}, 1, 9)
	}
	add(&Client{Parallel: 8, Pages: page}, 1, 9)
	add(&Client{Parallel: 4, Pages: page, Attested: true}, 4, 9)
	add(&Client{Rate: 0.25, Pages: page}, 1, 0.25*heavyPage)
	w := newWorld(t, 3, s, limiter.Fair)
	w.Run(clients, 4500, 4800) // by now, all debts are at their floor; while debts grow, costs also count for more
	for i, want := range MaxMin(s.CPUs, claims) {
		got := w.Used(clients[i].Kind) * s.CPUs
		slack := 0.06 * want
		if claims[i].Wants < 9 {
			slack = 0.25 * want // a few dozen requests, at random times
		}
		if math.Abs(got-want) > slack {
			t.Errorf("client %d got %.3f CPUs, the oracle says %.3f", i, got, want)
		}
	}
}

// Claim is the amount of a capacity that is wanted, and the weight of the claim.
type Claim struct {
	Weight, Wants float64
}

// MaxMin divides a capacity max-min fairly. No claim gets more than it wants, and no claim's amount divided by
// its weight could grow without reducing that of a claim that has less (Bertsekas and Gallager, Data Networks,
// 6.5.2). All claims fill up at the same pace, until they are satisfied or nothing is left.
func MaxMin(capacity float64, claims []Claim) []float64 {
	got := make([]float64, len(claims))
	for {
		open := 0.0
		for i, c := range claims {
			if got[i] < c.Wants {
				open += c.Weight
			}
		}
		if open == 0 || capacity <= 1e-12 {
			return got
		}
		rise := capacity / open // how far the level rises, unless a claim is full before
		for i, c := range claims {
			if got[i] < c.Wants {
				rise = min(rise, (c.Wants-got[i])/c.Weight)
			}
		}
		for i, c := range claims {
			if got[i] < c.Wants {
				got[i] += rise * c.Weight
				capacity -= rise * c.Weight
				if c.Wants-got[i] < 1e-12 {
					got[i] = c.Wants
				}
			}
		}
	}
}
