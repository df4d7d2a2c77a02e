package sim

import (
	"fmt"
	"math"
	"net/netip"
	"testing"

	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// sited returns a scenario of a backend with sites.
func sited(name string, sites []limiter.SiteInfo, clients func() []*Client) Scenario {
	return Scenario{Name: name, CPUs: 2, Workers: 16, Sites: sites, site: alike(), end: Attack + 180, clients: clients}
}

// sitesOfShares returns scenarios of three sites with shares of 1, 2 and 5, whose clients always want more CPU
// time than there is.
func sitesOfShares() (all []Scenario) {
	for _, c := range []struct {
		name    string
		clients [3]int
		cost    [3]float64
		longer  float64 // how many seconds longer the scenario runs, because a few pages aren't enough to measure
	}{
		{"pages that cost the same", [3]int{20, 20, 20}, [3]float64{0.15, 0.15, 0.15}, 0},
		{"the smallest has most clients", [3]int{60, 30, 10}, [3]float64{0.15, 0.15, 0.15}, 0},
		{"the smallest has the cheapest pages", [3]int{20, 20, 20}, [3]float64{0.02, 0.15, 0.4}, 0},
		{"the smallest has the most expensive pages", [3]int{20, 20, 20}, [3]float64{2, 0.15, 0.02}, 240},
		{"long pages", [3]int{20, 20, 20}, [3]float64{3, 3, 1}, 1800},
	} {
		s := sited(c.name, shares(1, 2, 5), func() (cs []*Client) {
			for i := range c.clients {
				cs = append(cs, saturating(i, c.clients[i], c.cost[i])...)
			}
			return cs
		})
		s.end += c.longer
		all = append(all, s)
	}
	return all
}

// playSited plays a scenario and measures it from the attack on.
func playSited(s Scenario, seed uint64) (*World, error) {
	w, err := NewWorld(seed, s, limiter.Fair)
	if err == nil {
		w.Run(s.Clients(), Attack, s.until())
	}
	return w, err
}

// judgeShares returns the sites that get at least 3 % more or less than their shares of the CPU time in use.
func judgeShares(s Scenario, seed uint64) (missed []string, figures string, err error) {
	w, err := playSited(s, seed)
	if err != nil {
		return nil, "", err
	}
	for i, site := range s.Sites {
		got, want := w.Used(siteName(i))/w.Used(), site.Share/8
		figures += fmt.Sprintf(" site %s has %.4f of the CPUs that were used;", site.Name, got)
		if math.Abs(got/want-1) > 0.03 {
			missed = append(missed, fmt.Sprintf("site %s got %.4f of what was used; its share is %.4f", site.Name, got, want))
		}
	}
	return missed, figures, nil
}

// aThousandth is a site with a share of 1:1000 whose pages take 3 s. People wait for a page, but not for hours.
func aThousandth() Scenario {
	return sited("a thousandth", shares(1, 1000), func() []*Client { return join(saturating(0, 20, 3), saturating(1, 20, 0.15)) })
}

func judgeThousandth(s Scenario, seed uint64) (missed []string, figures string, err error) {
	w, err := playSited(s, seed)
	if err != nil {
		return nil, "", err
	}
	got := w.Used("a") / w.Used()
	if got < 0.03 || got > 0.065 {
		missed = []string{fmt.Sprintf("the site got %.4f of the CPU time that was used, want 3 to 6.5 %%", got)}
	}
	return missed, fmt.Sprintf(" it has %.4f of what was used", got), nil
}

// TestAThousandth: a site with a tiny share gets one page in about 20 seconds, and no more.
func TestAThousandth(t *testing.T) {
	if missed, figures, err := judgeThousandth(aThousandth(), 1); err != nil || len(missed) > 0 {
		t.Error(missed, figures, err)
	}
}

// TestSitesGetTheirShares: sites get CPU time in proportion to their shares, whatever their pages cost, and
// however many clients each has.
func TestSitesGetTheirShares(t *testing.T) {
	for _, s := range sitesOfShares() {
		t.Run(s.Name, func(t *testing.T) {
			for seed := range uint64(seeds()) {
				missed, figures, err := judgeShares(s, seed+1)
				if t.Log(figures); err != nil || len(missed) > 0 {
					t.Error(seed+1, missed, err)
				}
			}
		})
	}
}

func playSites(t *testing.T, s Scenario) *World {
	t.Helper()
	w, err := playSited(s, 1)
	testkit.Must(t, err)
	return w
}

// TestIdleSitesShareIsEverybodys: the CPU time that a site doesn't use goes to the other sites, in proportion
// to their shares.
func TestIdleSitesShareIsEverybodys(t *testing.T) {
	s := sited("one is idle", shares(1, 2, 5), func() []*Client { return join(saturating(0, 20, 0.15), saturating(1, 20, 0.4)) })
	w := playSites(t, s)
	a, b := w.Used("a"), w.Used("b")
	t.Logf("used %.3f: a %.3f, b %.3f", w.Used(), a, b)
	if w.Used() < 0.99 || math.Abs(a/(a+b)*3-1) > 0.03 {
		t.Errorf("%.3f of the CPUs were used; site a, with a third of the shares in use, had %.3f of that", w.Used(), a/(a+b))
	}
}

// TestPagesBesideTheirSitesExports: a site's short pages don't wait for its exports because another site has a stream.
func TestPagesBesideTheirSitesExports(t *testing.T) {
	w := playSites(t, sited("exports", shares(1, 1), func() []*Client {
		exports := called("export", apart(0x20000, asking(people(2), []Page{{Path: "/export", CPU: 30}})))
		streams := apart(0x10000, asking(people(2), []Page{{Path: "/events", CPU: 0.005, Stream: 300}}))
		return join(of(0, people(10)), of(0, each(exports, func(c *Client) { c.Timeout = 400 })), of(1, called("stream", streams)))
	}))
	if p95 := w.Percentile("human", .95); !(p95 < 100) {
		t.Errorf("the p95 of short pages is %.0f ms", p95)
	}
}

// TestNeighbourOfACrawl: a crawl of one site doesn't harm the people of another site, even if the crawl comes
// from many addresses, keeps cookies and browses as people do. If the sites aren't distinguished, the crawl
// harms these people.
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

// TestNeighbourOfAFlood: newcomers of one site are served while another site is flooded with requests from new
// addresses, because each site has its own flow of strangers.
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

// TestInventedHostsGainNothing: all hosts that aren't named sites form one site. A client that invents hosts
// therefore competes only with itself and with the clients of other unnamed hosts.
func TestInventedHostsGainNothing(t *testing.T) {
	s := sited("invented", shares(1), func() (cs []*Client) {
		invented := saturating(1, 80, 0.15)
		for i, c := range invented {
			c.Host = fmt.Sprintf("site%d.invalid:%d", i, i)
		}
		return join(saturating(0, 10, 0.15), invented)
	})
	w := playSites(t, s)
	t.Logf("the named site got %.3f, and 80 invented hosts got %.3f", w.Used("a"), w.Used("b"))
	if math.Abs(w.Used("b")/w.Used()*2-1) > 0.03 {
		t.Error("invented hosts gain more than the share of the unnamed hosts")
	}
}

// TestPeopleOfACrawledSite: a crawler can't gain at the expense of the crawled site's people by requesting a
// page of another site now and then.
func TestPeopleOfACrawledSite(t *testing.T) {
	play := func(name string, clients ...[]*Client) *World {
		s := sited(name, shares(1, 1), func() []*Client {
			return join(append(clients, of(0, asking(thinking(called("own", people(10))), flat())), of(0, lone(20)))...)
		})
		s.Steps = true
		return playSites(t, s)
	}
	rare := called("rare", of(1, apart(1<<23, people(1))))
	rare[0].Think = 20
	alone, beside := play("crawled"), play("beside another", rare)
	was, is := alone.Percentile("own", .95), beside.Percentile("own", .95)
	t.Logf("p95 %.0f ms; next to another site %.0f ms", was, is)
	if is > 1.2*was || beside.Good("own") < 1 {
		t.Error("the people wait for the crawl as soon as another site is in use")
	}
}

// hoster maps the addresses of the crawler and the office to one autonomous system, and all others to another.
type hoster struct{}

func (hoster) ID(a netip.Addr) string {
	if first := a.As4()[0]; first == 0x22 || first == 0xc0 {
		return "AS64496"
	}
	return "AS64497"
}

// TestHosterInDebt: if 120 crawlers bring an autonomous system into debt, the office in the same system isn't
// locked out. The office's people get their pages as if there were no class of autonomous systems.
func TestHosterInDebt(t *testing.T) {
	without := Scenario{Name: "a hoster in debt", CPUs: 2, Workers: 16, clients: func() []*Client { return join(people(20), office(30), dist(120, "/heavy")) }}
	with := without
	with.Systems = hoster{}
	kinds := []string{"human", "nat", "attack"}
	before, after := play(t, without, limiter.Fair, kinds...), play(t, with, limiter.Fair, kinds...)
	for _, kind := range kinds {
		t.Logf("%-6s without: good %.3f, p50 %.0f ms, p95 %.0f ms; with: good %.3f, p50 %.0f ms, p95 %.0f ms, failed %.3f", kind,
			before[kind].good, before[kind].p50, before[kind].p95, after[kind].good, after[kind].p50, after[kind].p95, after[kind].failed)
	}
	if o := after["nat"]; o.good < 0.97 || o.failed > 0.001 || o.good < before["nat"].good-0.02 {
		t.Errorf("the office in the indebted system gets %+v", o)
	}
	if o := after["human"]; o.good < before["human"].good-0.01 {
		t.Errorf("people elsewhere get %+v, and %+v without the class", o, before["human"])
	}
	debt := debtOf(t, with)
	if debt >= 0 {
		t.Errorf("this tests nothing: the system has no debt (%g CPU-s)", -debt)
	}
}

// debtOf plays a scenario again and returns the final level of the hoster's account.
func debtOf(t *testing.T, s Scenario) (level float64) {
	t.Helper()
	w := newWorld(t, 1, s, limiter.Fair)
	w.Run(s.clients(), Attack, Attack+30)
	w.proxy.limiter.Dump(w.time(), "asn", func(r limiter.Row) bool {
		if r.ID == "AS64496" {
			level = r.Level
		}
		return true
	})
	return level
}
