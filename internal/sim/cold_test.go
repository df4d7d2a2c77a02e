package sim

import (
	"testing"

	"tempomat/limiter"
)

// TestColdStart has the proxy start in the middle of an attack on a site whose
// pages are all one script, told apart by a parameter, as nobody and nothing is
// known yet. A few must wait until it is found out what is cheap.
func TestColdStart(t *testing.T) {
	seeds := uint64(10)
	page := func(cost float64, query string) []Page {
		return []Page{{Path: "/index.php", Query: query, CPU: cost, Exact: true}}
	}
	for name, crowd := range map[string]struct {
		n     int
		think float64
	}{"120, thinking": {120, 3}, "60": {60, 0.05}, "200": {200, 0.05}} {
		for seed := range seeds {
			s := Scenarios()[0]
			s.site = site{parts: true}
			clients := people(20)
			for _, c := range clients {
				c.Pages, c.Timeout = page(lightPage, "route=home&n="), 15
			}
			for _, c := range crawlers(crowd.n, 1, 0x22000001, 0x10000, browser, "") {
				c.Pages, c.Think, c.From = page(heavyPage, "route=search&n="), crowd.think, 0
				clients = append(clients, c)
			}
			w, err := NewWorld(seed+1, s, limiter.Fair)
			if err != nil {
				t.Fatal(err)
			}
			w.Run(clients, 0, 25)
			p90, slowest := w.Percentile("human", .9), w.Percentile("human", 1)
			if !(p90 < 75) || !(slowest < 3000) {
				t.Errorf("%s, seed %d: people's p90 %.0f ms, at most %.0f ms", name, seed+1, p90, slowest)
			}
		}
	}
}
