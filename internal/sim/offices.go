package sim

// insideOffices returns scenarios with offices and a crawler behind the same address.
func insideOffices() []Scenario {
	inside := func(name string, crawler func() []*Client) Scenario {
		return siege(name, site{parts: true}, func() []*Client {
			cs := crawler()
			cs[0].Address = 0xc0a80101
			return join(thinking(office(20)), thinking(people(10)), cs)
		}, "nat", "human")
	}
	return []Scenario{
		inside("natflat20+crawler-inside-cookiesfalse", func() []*Client { return lone(20) }),
		inside("natflat20+flatcrawler-inside-cookiesfalse", func() []*Client { return flatCrawlers(1, 60, 0) }),
	}
}
