package sim

import (
	"fmt"
	"slices"
)

// Attacks returns families of scenarios, in addition to the regular ones. The scenarios of a family share one
// idea and differ in parameters.
func Attacks() (all []Scenario) {
	for _, family := range [][]Scenario{
		misguessed(), novel(), longJobs(), plainSites(), sessions(), strangersOfFlatSites(), newcomersBeside(),
		morePolls(), crowds(), insideOffices(), likePeople(), innocents(), expensivePeople(),
	} {
		all = append(all, family...)
	}
	reached := bars()
	for i := range all {
		s := &all[i]
		for k := range s.Demands {
			if d, ok := reached[s.Name+" "+s.Demands[k].Kind]; ok {
				s.Demands[k] = d
			}
		}
	}
	return all
}

// siege returns a scenario that reports results for the given kinds of clients.
func siege(name string, of site, clients func() []*Client, kinds ...string) Scenario {
	s := Scenario{Name: name, CPUs: 2, Workers: 16, Waiting: 0.95, site: of, end: Attack + 180, clients: clients}
	for _, k := range kinds {
		s.Demands = append(s.Demands, Demand{Kind: k, Failed: -1})
	}
	return s
}

// alike returns a site whose pages all cost the same. Clients can therefore get a standing only with cookies
// and parts of pages.
func alike() site { return site{cookies: true, parts: true} }

// expensivePages returns a crawler whose pages have different URLs and each cost the given number of
// CPU-seconds.
func expensivePages(parallel int, path string, cost float64) []*Client {
	cs := crawlers(1, parallel, 0x20000001, 0, robot, path)
	cs[0].Pages, cs[0].Timeout = []Page{{Path: path, Query: "n=", CPU: cost}}, 1000
	return cs
}

// asking makes clients request the given pages.
func asking(cs []*Client, pages []Page) []*Client {
	return each(cs, func(c *Client) { c.Pages = pages })
}

// browsing makes clients load the parts of their pages and send cookies back.
func browsing(cs []*Client) []*Client {
	return each(cs, func(c *Client) { c.Browser = true })
}

// likePeople returns scenarios with crawlers that request people's pages and send cookies back. One crawler
// requests more expensive pages from so many addresses that, once these are known, newcomers are a small part
// of the clients.
func likePeople() (all []Scenario) {
	for _, n := range []int{20, 120} {
		all = append(all, siege(fmt.Sprintf("flat-%daddr-browser", n), alike(), func() []*Client {
			return join(thinking(people(20)), browsing(flatCrawlers(n, 1, 0)))
		}, "human"))
	}
	return append(all, siege("new+posing120", alike(), func() []*Client {
		return join(thinking(people(20)), fewNew(flat()), posing(120, 1, heavyPage))
	}, "new", "human"))
}

// innocents returns scenarios with harmless robots in addition to harmful crawlers: a robot that crawls
// slowly, one that uses an API, one that calls a webhook, and one that checks whether the site is up.
func innocents() []Scenario {
	robots := func() []*Client {
		return []*Client{
			{Kind: "google", Address: 0x40000001, Agent: robot(3), Parallel: 2, Think: 1, Pages: light(), Timeout: 60, Retry: 10},
			{
				Kind: "api", Address: 0x41000001, Agent: robot(4), Parallel: 2, Think: 0.1,
				Pages: []Page{{Path: "/api/orders", Query: "id=", CPU: 0.05}}, Timeout: 30, Retry: 1,
			},
			{Kind: "hook", Address: 0x42000001, Agent: robot(5), Rate: 0.5, Pages: []Page{{Path: "/hook", CPU: 0.3}}, Timeout: 10},
			{Kind: "probe", Address: 0x43000001, Agent: robot(6), Rate: 0.1, Pages: []Page{{Path: "/health", CPU: 0.3}}, Timeout: 10},
		}
	}
	return []Scenario{siege("innocent-dist120", site{}, func() []*Client {
		return join(people(20), robots(), dist(120, "/heavy"))
	}, "hook", "probe", "api", "google", "human")}
}

// search returns a page whose URL has a parameter with a different name in each round. If round is negative,
// the URL doesn't have that parameter.
func search(round int, cost float64) []Page {
	query := "q="
	if round >= 0 {
		query = fmt.Sprintf("x=%c%c&q=", 'a'+round/26, 'a'+round%26)
	}
	return []Page{{Path: "/search", Query: query, CPU: cost}}
}

// training returns a client that makes a burst of cheap requests from an address. dear returns one that makes
// expensive requests.
func training(address uint32, at float64, pages []Page) *Client {
	return &Client{
		Kind: "train", Address: address, Agent: browser(0), Pages: pages,
		Think: 0.01, Timeout: 30, From: at, To: at + 0.5,
	}
}

func dear(address uint32, parallel int, from, to float64, pages []Page) *Client {
	return &Client{
		Kind: "attack", Address: address, Agent: browser(0), Parallel: parallel, Pages: pages,
		Timeout: 300, From: from, To: to,
	}
}

// misguessed returns scenarios with attackers that first request cheap pages with a parameter, until the proxy
// expects such pages to be cheap, and then request expensive pages with that parameter. They repeat this with
// other parameters.
func misguessed() (all []Scenario) {
	for _, x := range []struct {
		name                        string
		rounds, addresses, parallel int
		each, cost, lasting         float64 // seconds
		trained                     bool
	}{
		{name: "misguess8addr", rounds: 20, addresses: 8, parallel: 4, each: 8, cost: 8, lasting: 1, trained: true},
		{name: "misguess-control", rounds: 20, addresses: 1, parallel: 20, each: 8, cost: 8, lasting: 1},
		{name: "train3s-8addr", rounds: 60, addresses: 8, parallel: 2, each: 3, cost: 3, lasting: 0.06, trained: true},
	} {
		all = append(all, siege(x.name, site{}, func() []*Client {
			cs := people(20)
			for i := range x.rounds {
				at, round := Attack+float64(i)*x.each, -1
				if x.trained {
					round = i
				}
				for a := range x.addresses {
					address := 0x20000001 + uint32(a)*strewn
					if x.trained {
						cs = append(cs, training(address, at, search(round, 0.002)))
					}
					cs = append(cs, dear(address, x.parallel, at+1, at+1+x.lasting, search(round, x.cost)))
				}
			}
			return cs
		}, "human"))
	}
	return all
}

// novel returns scenarios with attackers whose requests each have a parameter that no earlier request had, so
// their cost is never known. The attackers use up all probes unless the proxy notices that such requests are
// expensive. In a wiki, no one has read people's pages before either.
func novel() (all []Scenario) {
	for _, x := range []struct {
		addresses, parallel int
		people              float64 // cost of people's pages
		wiki                bool
	}{{1, 60, 0.6, false}, {8, 20, 0.02, false}, {120, 1, 0.3, false}, {8, 20, 0.02, true}, {8, 20, 0.15, true}} {
		name, page, kinds := "people", Page{Path: "/page", CPU: x.people}, []string{"human"}
		if x.wiki {
			name, page, kinds = "wiki", Page{Path: "/wiki/", CPU: x.people, Novel: true}, []string{"new", "human"}
		}
		s := siege(fmt.Sprintf("novel%dx%d-%s%gms", x.addresses, x.parallel, name, 1000*x.people), site{}, func() []*Client {
			attack := crawlers(x.addresses, x.parallel, 0x20000001, strewn, browser, "/search")
			asking(attack, []Page{{Path: "/search", CPU: 1.5, Novel: true}})
			if x.wiki {
				attack = append(attack, fewNew([]Page{page})...)
			}
			return join(asking(thinking(people(4)), []Page{page}), attack)
		}, kinds...)
		s.Workers = 150
		all = append(all, s)
	}
	return all
}

// Stepping returns scenarios with crawls of a backend whose workers reduce their priority while their requests
// compute. People must get their pages almost as fast as on the idle site, where the 95th percentile is 29 ms,
// or 222 ms if all pages cost the same. Next to 120 crawlers that request no more than people do, people must
// get their pages as fast as without reduced priorities.
func Stepping() (all []Scenario) {
	demands := map[string][]Demand{
		"crawl1":                    {{Kind: "human", Good: 1, P95: 40}},
		"dist120":                   {{Kind: "human", Good: 1, P95: 45}},
		"oneshot-samepath":          {{Kind: "human", Good: 1, P95: 45}},
		"lightflood":                {{Kind: "human", Good: 1, P95: 45}},
		"nat+crawl1":                {{Kind: "human", Good: 1, P95: 45}, {Kind: "nat", Good: 1, P95: 50}},
		"nat+dist120":               {{Kind: "human", Good: 1, P95: 50}, {Kind: "nat", Good: 1, P95: 110}},
		"mixed":                     {{Kind: "human", Good: 1, P95: 55}, {Kind: "nat", Good: 0.99, P95: 140}},
		"flat1":                     {{Kind: "human", Good: 0.99, P95: 280}},
		"flatshot":                  {{Kind: "human", Good: 0.99, P95: 300}},
		"flat120":                   {{Kind: "human", Good: 0.99, P95: 360}},
		"flatnat":                   {{Kind: "human", Good: 0.99, P95: 390}, {Kind: "nat", Good: 0.99, P95: 390}},
		"plain-people150ms-crawl2s": {{Kind: "human", Good: 0.99, P95: 280}},
		"sess-16-heavy400-flat":     {{Kind: "human", Good: 0.99, P95: 300}, {Kind: "new", Good: 0.99, P95: 485}},
	}
	usual := []string{"crawl1", "flat1", "nat+dist120"}
	for _, s := range slices.Concat(Scenarios(), Attacks()) {
		d, has := demands[s.Name]
		if !has {
			continue
		}
		s.Rare = !slices.Contains(usual, s.Name)
		s.Name, s.Demands, s.Steps, s.Waiting = s.Name+"+steps", d, true, 0.94
		all = append(all, s)
	}
	return all
}

// longJobs returns scenarios in which one address requests exports of many seconds on several connections.
func longJobs() []Scenario {
	jobs := func(name string, of site, crowd func([]*Client) []*Client, parallel int, page Page) Scenario {
		return siege(name, of, func() []*Client {
			cs := crawlers(1, parallel, 0x20000001, 0, robot, page.Path)
			cs[0].Pages, cs[0].Timeout = []Page{page}, 1000
			return join(crowd(people(20)), cs)
		}, "human")
	}
	light := func(cs []*Client) []*Client { return cs }
	return append(besideExports(),
		jobs("longjobs-light", site{}, light, 20, Page{Path: "/export", CPU: 30}),
		jobs("longjobs-flat", alike(), thinking, 20, Page{Path: "/export", CPU: 30}),
		jobs("lj-flat-10s-12conn", alike(), thinking, 12, Page{Path: "/export", Query: "id=", CPU: 10}),
		jobs("lj-flat-30s-20conn", alike(), thinking, 20, Page{Path: "/export", Query: "id=", CPU: 30}))
}

// besideExports returns scenarios with expensive pages and a few exports that take a minute. While the exports
// compute, known people and newcomers may wait only for each other.
func besideExports() (all []Scenario) {
	for _, x := range []struct {
		page, job float64
		parallel  int
		machine   string
	}{
		{0.3, 60, 3, ""}, {0.3, 60, 20, ""}, {0.6, 60, 3, ""}, {0.6, 60, 20, ""}, {1, 60, 3, ""},
		{0.1, 60, 3, "-1cpu"}, {0.3, 60, 20, "-1cpu"},
	} {
		page := []Page{{Path: "/page", CPU: x.page}}
		s := siege(fmt.Sprintf("exports%gs-%dconn-pages%gms%s", x.job, x.parallel, 1000*x.page, x.machine), site{}, func() []*Client {
			return join(asking(thinking(people(2)), page), newcomers(40, Attack+20, Attack+170, page), expensivePages(x.parallel, "/export", x.job))
		}, "new", "human")
		if x.machine != "" {
			s.CPUs, s.Workers = 1, 8
		}
		all = append(all, s)
	}
	return all
}

// plainSites returns scenarios with pages that all cost the same, neither light nor heavy, and a crawler
// whose pages cost more.
func plainSites() (all []Scenario) {
	for _, cost := range []float64{0.12, 0.15, 0.3} {
		all = append(all, siege(fmt.Sprintf("plain-people%gms-crawl2s", cost*1000), alike(), func() []*Client {
			return join(asking(thinking(people(10)), []Page{{Path: "/page", CPU: cost}}), expensivePages(4, "/heavy", 2))
		}, "human"))
	}
	return all
}
