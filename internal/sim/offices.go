package sim

import "fmt"

// insideOffices are offices with a crawler behind the same address.
func insideOffices() (all []Scenario) {
	inside := func(cs []*Client) []*Client {
		cs[0].Address = 0xc0a80101
		return cs
	}
	for _, cookies := range []bool{false, true} {
		of, tail := site{cookies: cookies, parts: true}, fmt.Sprintf("-inside-cookies%v", cookies)
		all = append(all,
			siege("nat30+crawler"+tail, of, func() []*Client {
				return join(office(30), people(10), inside(lone(20)))
			}, "nat", "human"),
			siege("natflat20+crawler"+tail, of, func() []*Client {
				return join(thinking(office(20)), thinking(people(10)), inside(lone(20)))
			}, "nat", "human"),
			siege("natflat20+flatcrawler"+tail, of, func() []*Client {
				return join(thinking(office(20)), thinking(people(10)), inside(flatCrawlers(1, 60, 0)))
			}, "nat", "human"))
	}
	return all
}
