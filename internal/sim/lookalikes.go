package sim

import "fmt"

// likePeople are crawlers that ask for people's pages, and bring cookies back.
func likePeople() (all []Scenario) {
	add := func(name string, crowd, others func() []*Client) {
		all = append(all, siege(name, alike(), func() []*Client { return join(crowd(), others()) }, "human"))
	}
	readers := func() []*Client { return thinking(people(20)) }
	oneAddress := func(parallel int) []*Client {
		cs := browsing(flatCrawlers(64, parallel, 0))
		for _, c := range cs {
			c.Address = 0x20000001
		}
		return cs
	}
	add("flat-control", readers, func() []*Client { return flatCrawlers(1, 20, 0) })
	add("flat-1addr-64sess", readers, func() []*Client { return oneAddress(1) })
	add("flat-1addr-64sess-4x", readers, func() []*Client { return oneAddress(4) })
	add("light-1addr-64sess", func() []*Client { return people(20) }, func() []*Client { return asking(oneAddress(4), light()) })
	for _, n := range []int{20, 120} {
		add(fmt.Sprintf("flat-%daddr-browser", n), readers, func() []*Client { return browsing(flatCrawlers(n, 1, 0)) })
	}
	return all
}

// innocents are robots that do no harm, beside crawlers that do: one that
// crawls slowly, one that uses an API, one that calls a hook, and one that looks
// whether the site lives.
func innocents() (all []Scenario) {
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
	for _, x := range []struct {
		name   string
		others func() []*Client
	}{
		{"none", func() []*Client { return nil }},
		{"lone20", func() []*Client { return lone(20) }},
		{"dist120", func() []*Client { return dist(120, "/heavy") }},
		{"oneshot30", func() []*Client { return flood(30, true, heavy("/heavy")) }},
	} {
		all = append(all, siege("innocent-"+x.name, site{}, func() []*Client {
			return join(people(20), robots(), x.others())
		}, "hook", "probe", "api", "google", "human"))
	}
	return all
}
