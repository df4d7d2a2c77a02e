package sim

import (
	"fmt"
	"math"
	"testing"

	"tempomat/limiter"
)

// sited is a scenario of a backend with sites.
func sited(name string, sites []limiter.SiteInfo, clients func() []*Client) Scenario {
	return Scenario{Name: name, CPUs: 2, Workers: 16, Sites: sites, site: alike(), end: Attack + 180, clients: clients}
}

// TestSitesGetTheirShares: sites whose clients always want more than there is get the CPUs by
// their shares, within 3 %, whatever their pages cost, and however many clients each has.
func TestSitesGetTheirShares(t *testing.T) {
	for _, c := range []struct {
		name    string
		clients [3]int
		cost    [3]float64
		longer  float64 // how much longer it is played, as few pages are no measure
	}{
		{"pages that cost the same", [3]int{20, 20, 20}, [3]float64{0.15, 0.15, 0.15}, 0},
		{"the smallest has most clients", [3]int{60, 30, 10}, [3]float64{0.15, 0.15, 0.15}, 0},
		{"the smallest has the cheapest pages", [3]int{20, 20, 20}, [3]float64{0.02, 0.15, 0.4}, 0},
		{"the smallest has the dearest pages", [3]int{20, 20, 20}, [3]float64{2, 0.15, 0.02}, 240},
		{"long pages", [3]int{20, 20, 20}, [3]float64{3, 3, 1}, 1800},
	} {
		t.Run(c.name, func(t *testing.T) {
			weights := []float64{1, 2, 5}
			s := sited(c.name, shares(weights...), func() (cs []*Client) {
				for i := range weights {
					cs = append(cs, saturating(i, c.clients[i], c.cost[i])...)
				}
				return cs
			})
			s.end += c.longer
			w := playSites(t, s)
			all := w.Used()
			for i, weight := range weights {
				got, want := w.Used(siteName(i))/all, weight/8
				t.Logf("site %s: %.4f of the CPUs that were used (%.3f), its share is %.4f", siteName(i), got, all, want)
				if math.Abs(got/want-1) > 0.03 {
					t.Errorf("site %s got %.4f of what was used; its share is %.4f", siteName(i), got, want)
				}
			}
		})
	}
}

func playSites(t *testing.T, s Scenario) *World {
	t.Helper()
	w, err := NewWorld(1, s, limiter.Fair)
	if err != nil {
		t.Fatal(err)
	}
	end := s.until()
	w.Run(s.Clients(), Attack, end)
	return w
}

// TestIdleSitesShareIsEverybodys: what a site does not want, the others get by their shares.
func TestIdleSitesShareIsEverybodys(t *testing.T) {
	s := sited("one is idle", shares(1, 2, 5), func() []*Client { return join(saturating(0, 20, 0.15), saturating(1, 20, 0.4)) })
	w := playSites(t, s)
	a, b := w.Used("a"), w.Used("b")
	t.Logf("used %.3f: a %.3f, b %.3f", w.Used(), a, b)
	if w.Used() < 0.99 || math.Abs(a/(a+b)*3-1) > 0.03 {
		t.Errorf("%.3f of the CPUs were used; a, with a third of the shares in use, had %.3f of it", w.Used(), a/(a+b))
	}
}

// TestNeighbourOfACrawl: a crawl on one site that comes as people of that site do, from many
// addresses, with cookies, does not harm another site's people. Where nobody tells the sites
// apart it does.
func TestNeighbourOfACrawl(t *testing.T) {
	neighbours := func() []*Client { return called("neighbour", of(1, thinking(people(20)))) }
	calm := playSites(t, sited("calm", shares(1, 1), neighbours))
	for _, c := range []struct{ clients, cost float64 }{{120, 0.02}, {120, 0.15}, {400, 0.15}, {120, 0.4}, {400, 2}} {
		t.Run(fmt.Sprintf("%g of %g s", c.clients, c.cost), func(t *testing.T) {
			s := sited("crawled", shares(1, 1), func() []*Client {
				return join(neighbours(), called("own", apart(1<<23, of(0, thinking(people(10))))), of(0, posing(int(c.clients), 1, c.cost)))
			})
			w := playSites(t, s)
			for _, kind := range []string{"neighbour", "own"} {
				t.Logf("%-9s good %.3f, p50 %.0f ms, p95 %.0f ms, failed %.3f", kind, w.Good(kind), w.Percentile(kind, .5), w.Percentile(kind, .95), w.Failed(kind))
			}
			t.Logf("without the crawl p50 %.0f ms, p95 %.0f ms; it used %.3f of the CPUs", calm.Percentile("neighbour", .5), calm.Percentile("neighbour", .95), w.Used("attack"))
			if w.Good("neighbour") < 0.96 || w.Failed("neighbour") > 0 || w.Percentile("neighbour", .5) > 2*calm.Percentile("neighbour", .5) {
				t.Error("the other site's people are harmed")
			}
			if w.Used() < 0.95 {
				t.Errorf("%.3f of the CPUs were used", w.Used())
			}
		})
	}
}

// TestNeighbourOfAFlood: newcomers of one site are served while a flood comes to another one
// from a new address for each request: strangers are one flow at each site.
func TestNeighbourOfAFlood(t *testing.T) {
	newcomers := func() []*Client {
		return called("new", of(1, []*Client{{Address: 0x20000001, Rate: 1, Fresh: true, Pages: flat(), Timeout: 30, From: Attack}}))
	}
	for _, sites := range [][]limiter.SiteInfo{shares(1, 1), nil} {
		s := sited("flooded", sites, func() []*Client { return join(newcomers(), of(0, flood(40, true, flat()))) })
		s.end = Attack + 120
		w := playSites(t, s)
		t.Logf("%d sites: newcomers good %.3f, p50 %.0f ms, failed %.3f", len(sites), w.Good("new"), w.Percentile("new", .5), w.Failed("new"))
		if sites != nil && w.Good("new") < 0.97 {
			t.Error("newcomers of the other site are harmed")
		}
	}
}

// TestInventedHostsGainNothing: a client may ask for any host. All that are no named site's are
// together one site, so that who makes them up competes with itself, and with who asks for one.
func TestInventedHostsGainNothing(t *testing.T) {
	s := sited("invented", shares(1), func() (cs []*Client) {
		invented := saturating(1, 80, 0.15)
		for i, c := range invented {
			c.Host = fmt.Sprintf("site%d.invalid:%d", i, i)
		}
		return join(saturating(0, 10, 0.15), invented)
	})
	w := playSites(t, s)
	t.Logf("the named site got %.3f, 80 invented ones %.3f", w.Used("a"), w.Used("b"))
	if math.Abs(w.Used("b")/w.Used()*2-1) > 0.03 {
		t.Error("invented hosts gain more than the share of what is no named site")
	}
}
