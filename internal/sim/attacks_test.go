package sim

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"tempomat/classify/robots"
	"tempomat/limiter"
)

// TestRowsAreFound checks that each bar and reference names an existing scenario, and that each scenario has
// its own name.
func TestRowsAreFound(t *testing.T) {
	rows := map[string]bool{}
	for _, s := range Attacks() {
		if rows[s.Name] {
			t.Errorf("two scenarios are named %s", s.Name)
		}
		rows[s.Name] = true
		judged := false
		for _, d := range s.Demands {
			rows[s.Name+" "+d.Kind] = true
			judged = judged || d.Good > 0 || d.P95 > 0 || d.Failed >= 0
		}
		if !judged {
			t.Errorf("%s has no demands", s.Name)
		}
	}
	for row := range bars() {
		if !rows[row] {
			t.Errorf("no scenario is named %s", row)
		}
	}
	for i, all := range [][]Scenario{Scenarios(), Machines()} {
		for _, s := range all {
			if slices.ContainsFunc(s.Demands, func(d Demand) bool { return d.P95 == 0 }) {
				t.Errorf("table %d, %s: no reference", i, s.Name)
			}
		}
	}
}

// TestColdStart starts the proxy in the middle of an attack on a site where one script serves all pages, which
// differ in a parameter. At first, the proxy knows no client and no cost. A few people must wait until it has
// learned which pages are cheap.
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
			w := newWorld(t, seed+1, s, limiter.Fair)
			w.Run(clients, 0, 25)
			p90, slowest := w.Percentile("human", .9), w.Percentile("human", 1)
			if !(p90 < 75) || !(slowest < 3000) {
				t.Errorf("%s, seed %d: people's p90 is %.0f ms, want at most %.0f ms", name, seed+1, p90, slowest)
			}
		}
	}
}

// A robot comes from networksOfRobot /16 networks, and has addressesOfEach addresses in each of them.
const networksOfRobot, addressesOfEach = 20, 25

// manyAddresses returns 500 clients with one connection each, at 500 addresses of 20 networks. They are one
// robot or 500 robots, depending on agent.
func manyAddresses(agent func(i int) string) (cs []*Client) {
	for network := range networksOfRobot {
		for i := range addressesOfEach {
			at := 0x70000001 + uint32(network)<<16 + uint32(i)<<8
			cs = append(cs, crawlers(1, 1, at, 0, func(int) string { return agent(network*addressesOfEach + i) }, "/heavy")...)
		}
	}
	for _, c := range cs {
		c.Kind, c.Retry = "robot", 1
	}
	return cs
}

// TestRobotIsAClient: a robot that identifies itself gets as much from 500 addresses as one client gets from
// one address, whether or not it is verified. Many unknown names together get as much as one client. People
// aren't delayed.
func TestRobotIsAClient(t *testing.T) {
	named := func(name string) func(int) string { return func(int) string { return name } }
	for _, x := range []struct {
		what     string
		agent    func(i int) string
		verified bool
		most     float64 // as a multiple of what one client gets
	}{
		{"verified", named("Mozilla/5.0 (compatible; ExampleBot/2.1)"), true, 1.15},
		{"by its name", named("Mozilla/5.0 (compatible; ExampleBot/2.1)"), false, 1.15},
		{"16 names", func(i int) string { return fmt.Sprintf("bot%c/1.0", 'a'+rune(i%16)) }, false, 1.15},
		{"500 names", func(i int) string { return fmt.Sprintf("bot%c%c/1.0", 'a'+rune(i/26), 'a'+rune(i%26)) }, false, 1.6}, // so many requests wait at a time that the limit of the lead applies
	} {
		s := Scenario{
			CPUs: 2, Workers: 16,
			clients: func() []*Client {
				rival := crawlers(1, 20, 0x30000001, 0, browser, "/heavy")
				rival[0].Kind, rival[0].From = "rival", 0
				return join(people(10), rival, manyAddresses(x.agent))
			},
		}
		if x.verified {
			all := robots.Robot{Name: "examplebot", Agents: []string{"examplebot"}}
			for network := range networksOfRobot {
				all.Addresses = append(all.Addresses, netip.PrefixFrom(netip.AddrFrom4([4]byte{0x70, byte(network)}), 16))
			}
			s.Verified = []robots.Robot{all}
		}
		w := newWorld(t, 1, s, limiter.Fair)
		w.Run(s.Clients(), Attack+20, Attack+90)
		used := func(kind string) float64 { return w.backend.usedBy[kind] - w.usedBy[kind] }
		t.Logf("%s: the robot used %.1f CPU-s, one client %.1f, people %.1f; people's p95 is %.0f ms",
			x.what, used("robot"), used("rival"), used("human"), w.Percentile("human", 0.95))
		if part := used("robot") / used("rival"); part > x.most || part < 0.8 {
			t.Errorf("%s: the robot got %.2f times as much as one client", x.what, part)
		}
		if good := w.Good("human"); good < 0.98 {
			t.Errorf("%s: %.1f%% of people's pages are answered within a second", x.what, 100*good)
		}
	}
}

// TestFetcherForPeople: an operator has a fetcher for people, with a browser's name, in 10 networks, and a
// crawler in 10 other networks. The fetcher counts as one client that is separate from the crawler, and goes
// before the crawler. People go before both.
func TestFetcherForPeople(t *testing.T) {
	operator := []robots.Robot{
		{Name: "trainbot", Operator: "Lab", Kind: robots.Training, Agents: []string{"TrainBot"}},
		{Name: "lab-user", Operator: "Lab", Kind: robots.Person, Agents: []string{"Lab-User"}},
	}
	for network := range networksOfRobot {
		of := &operator[network%2]
		of.Addresses = append(of.Addresses, netip.PrefixFrom(netip.AddrFrom4([4]byte{0x70, byte(network)}), 16))
	}
	s := Scenario{
		CPUs: 2, Workers: 16, Verified: operator,
		clients: func() []*Client {
			all := manyAddresses(func(i int) string {
				if i/addressesOfEach%2 == 0 {
					return "TrainBot/1.0"
				}
				return browser(i)
			})
			for i, c := range all {
				if i/addressesOfEach%2 == 1 {
					c.Kind = "fetcher"
				}
			}
			return join(people(10), all)
		},
	}
	w := newWorld(t, 1, s, limiter.Fair)
	w.Run(s.Clients(), Attack+20, Attack+90)
	used := func(kind string) float64 { return w.backend.usedBy[kind] - w.usedBy[kind] }
	if part := used("fetcher") / used("robot"); part < 1.3 || part > 1.7 {
		t.Errorf("the fetcher used %.1f CPU-s, %.2f times as much as the crawler", used("fetcher"), part)
	}
	if good := w.Good("human"); good < 0.98 {
		t.Errorf("%.1f%% of people's pages are answered within a second", 100*good)
	}
}

// TestEntrances: people who come once, to log in or to register, are served while a crawl of 500 addresses
// follows the same links as everyone else. This holds whether or not newcomers are redirected, and whether or
// not the crawl follows redirects. The order among strangers achieves it. If login pages went first, the crawl
// would benefit as well; in tests, that kept people out.
func TestEntrances(t *testing.T) {
	entrances := []Page{{Path: "/login", Query: "to=", CPU: 0.1, Part: 0.3}, {Path: "/register", CPU: 0.1, Part: 0.2}, {Path: "/wiki", Query: "n=", CPU: 0.3}}
	for _, redirect := range []bool{false, true} {
		for _, follows := range []float64{0, roundTrip} {
			s := redirects("entrances", site{cookies: true, parts: true}, func() []*Client {
				crawl := crawlers(500, 1, 0x20000001, strewn, browser, "/login")
				for _, c := range crawl {
					c.Pages, c.Follows = entrances, follows
				}
				visitors := firstVisits(150, Attack+20, Attack+170, []Page{{Path: "/login", Query: "to=", CPU: 0.1}})
				for _, c := range visitors {
					c.Rate, c.To, c.Once = 0, 0, true
				}
				return join(people(10), visitors, crawl)
			})
			s.Redirect = redirect
			w := newWorld(t, 1, s, limiter.Fair)
			w.Run(s.Clients(), Attack+20, Attack+200)
			if first, known := w.Good("new"), w.Good("human"); first < 0.98 || known < 0.99 {
				t.Errorf("redirect %t, follows after %gs: %.1f%% of first visitors and %.1f%% of people were served within a second", redirect, follows, 100*first, 100*known)
			}
		}
	}
}

// TestFarmOfEntrances: a crawler follows only the links to log in, to register and to buy, on 20 connections of
// one address. With many cookies, it gets little more than with one, whether or not it keeps the cookies, and
// whether or not it loads parts. First visitors, people, and a crawl of 500 addresses use the site at the same
// time.
func TestFarmOfEntrances(t *testing.T) {
	entrances := []Page{{Path: "/login", Query: "to=", CPU: 0.1, Part: 0.4}, {Path: "/register", CPU: 0.1, Part: 0.3}, {Path: "/cart", Query: "add=", CPU: 0.1}}
	all := append([]Page{{Path: "/wiki", Query: "n=", CPU: 0.1, Part: 0.5}}, entrances...)
	bare := func(cs []*Client, pages []Page) []*Client {
		return each(cs, func(c *Client) { c.Pages, c.Follows, c.Browser, c.Bare = pages, roundTrip, true, true })
	}
	play := func(jars int, forgets float64, parts bool) float64 {
		s := redirects("farm", alike(), func() []*Client {
			farm := bare(called("farm", crawlers(jars, 20/jars, 0xc0a80101, 0, func(int) string { return browser(0) }, "")), entrances)
			first := firstVisits(100, Attack+20, Attack+120, entrances[:1])
			crawl := asking(crawlers(500, 1, 0x20000001, strewn, browser, ""), all)
			bare(crawl[:250], all)
			each(crawl, func(c *Client) { c.Think, c.From = 36, Attack-40 }) // so many that 60 have a request at a time
			each(first, func(c *Client) { c.Rate, c.To, c.Once = 0, 0, true })
			return join(people(10), first, crawl, each(farm, func(c *Client) { c.Forgets, c.Bare = forgets, !parts }))
		})
		w := newWorld(t, 1, s, limiter.Fair)
		w.Run(s.Clients(), Attack+10, Attack+130)
		if first, known := w.Good("new"), w.Good("human"); first < 0.98 || known < 0.99 {
			t.Errorf("%d cookies at a time, forgets %g, parts %t: %.1f%% of first visitors and %.1f%% of people were served within a second", jars, forgets, parts, 100*first, 100*known)
		}
		return w.Used("farm")
	}
	for _, parts := range []bool{false, true} {
		share := play(1, 0, parts)
		for _, forgets := range []float64{0, 0.2} {
			if part := play(20, forgets, parts) / share; part > 1.3 {
				t.Errorf("forgets %g, parts %t: with many cookies, the crawler got %.2f times as much as with one", forgets, parts, part)
			}
		}
	}
}
