package sim

import "fmt"

// offices are many people behind one address, who share a connection with others
// under attack.
func offices() (all []Scenario) {
	for _, of := range []site{{}, alike()} {
		for _, x := range []struct {
			people int
			tail   string
			others func() []*Client
		}{
			{200, "", func() []*Client { return nil }},
			{200, "+crawl", func() []*Client { return lone(20) }},
			{200, "+dist", func() []*Client { return dist(120, "/heavy") }},
			{100, "+crawl", func() []*Client { return lone(20) }},
		} {
			name := fmt.Sprintf("office%d-think5-cookies%v%s", x.people, of.cookies, x.tail)
			all = append(all, siege(name, of, func() []*Client {
				return join(unhurried(office(x.people), 5), people(10), x.others())
			}, "nat", "human"))
		}
	}
	for _, cookies := range []bool{false, true} {
		of := site{cookies: cookies, parts: true}
		all = append(all,
			siege(fmt.Sprintf("cgnat1000-think30-cookies%v+dist120", cookies), of, func() []*Client {
				return join(unhurried(office(1000), 30), people(10), dist(120, "/heavy"))
			}, "nat", "human"),
			siege(fmt.Sprintf("cgnat300-flat-think30-cookies%v+lone4", cookies), of, func() []*Client {
				return join(unhurried(thinking(office(150)), 30), thinking(people(10)), lone(4))
			}, "nat", "human"))
	}
	return append(all, neighboursOfDebtors())
}

// unhurried has clients think for so many seconds.
func unhurried(cs []*Client, think float64) []*Client {
	for _, c := range cs {
		c.Think = think
	}
	return cs
}

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

// neighboursOfDebtors are people of a /24 that crawlers have run into debt.
func neighboursOfDebtors() Scenario {
	return siege("neighbour-flat", alike(), func() []*Client {
		cs := thinking(people(10))
		for i, c := range cs {
			c.Kind, c.Address = "nb", 0x200000c0+uint32(i)
		}
		return join(thinking(people(20)), cs, asking(crawlers(40, 1, 0x20000001, neighbours, browser, ""), flat()))
	}, "nb", "human")
}
