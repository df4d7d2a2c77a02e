package sim

import (
	"net/netip"
	"testing"

	"tempomat/limiter"
)

// hoster is an autonomous system that has all of the crawler's addresses and the office's;
// others are of one of their own.
type hoster struct{}

func (hoster) ID(a netip.Addr) string {
	if first := a.As4()[0]; first == 0x22 || first == 0xc0 {
		return "AS64496"
	}
	return "AS64497"
}

// TestHosterInDebt: an autonomous system that 120 crawlers have brought into debt does not lock
// out the office that is of the same: its people get their pages as they do where nobody
// counts by systems.
func TestHosterInDebt(t *testing.T) {
	scenario := func(name string) Scenario {
		s := Scenario{Name: name, CPUs: 2, Workers: 16, site: site{}, clients: func() []*Client { return join(people(20), office(30), dist(120, "/heavy")) }}
		return s
	}
	without, with := scenario("nobody counts by systems"), scenario("a hoster in debt")
	with.Systems = hoster{}
	kinds := []string{"human", "nat", "attack"}
	before, after := play(t, without, limiter.Fair, kinds...), play(t, with, limiter.Fair, kinds...)
	for _, kind := range kinds {
		t.Logf("%-6s without: good %.3f, p50 %.0f ms, p95 %.0f ms; with: good %.3f, p50 %.0f ms, p95 %.0f ms, failed %.3f", kind,
			before[kind].good, before[kind].p50, before[kind].p95, after[kind].good, after[kind].p50, after[kind].p95, after[kind].failed)
	}
	if o := after["nat"]; o.good < 0.97 || o.failed > 0.001 || o.good < before["nat"].good-0.02 {
		t.Errorf("the office in the indebted system: %+v", o)
	}
	if o := after["human"]; o.good < before["human"].good-0.01 {
		t.Errorf("people elsewhere: %+v, and %+v without", o, before["human"])
	}
	debt := debtOf(t, with)
	if debt >= 0 {
		t.Errorf("the system owes nothing (%g CPU-s): this shows nothing", -debt)
	}
}

// debtOf plays a scenario again and returns the level of the hoster's account at its end.
func debtOf(t *testing.T, s Scenario) (level float64) {
	t.Helper()
	w, err := NewWorld(1, s, limiter.Fair)
	if err != nil {
		t.Fatal(err)
	}
	w.Run(s.clients(), Attack, Attack+30)
	w.proxy.limiter.Dump(w.time(), "asn", func(r limiter.Row) bool {
		if r.ID == "AS64496" {
			level = r.Level
		}
		return true
	})
	return level
}
