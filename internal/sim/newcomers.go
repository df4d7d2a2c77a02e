package sim

import "fmt"

// newcomers returns n people with different addresses, who arrive evenly between two times and request one
// page.
func newcomers(n int, from, to float64, pages []Page) (cs []*Client) {
	for i := range n {
		begin := from + (to-from)*float64(i)/float64(n)
		cs = append(cs, &Client{
			Kind: "new", Address: 0x60000007 + uint32(i)*0x10000, Agent: browser(i), Browser: true,
			Pages: pages, Timeout: 30, Rate: 1, From: begin, To: begin + 1e-6,
		})
	}
	return cs
}

// fewNew and manyNew return newcomers who arrive during an attack.
func fewNew(pages []Page) []*Client  { return newcomers(100, Attack+20, Attack+170, pages) }
func manyNew(pages []Page) []*Client { return newcomers(150, Attack+20, Attack+170, pages) }

// attack is a named crowd of clients that attack a site.
type attack struct {
	name   string
	others func() []*Client
}

// besideNewcomers returns attacks on a site with light pages. In some, the attackers request the same path.
func besideNewcomers() []attack {
	return []attack{
		{"new+oneshot30heavy-samepath", func() []*Client { return flood(30, true, heavy("/page")) }},
		{"new+lightshot100", func() []*Client { return flood(100, true, light()) }},
		{"new+dist120-samepath", func() []*Client { return dist(120, "/page") }},
	}
}

// newcomersBeside returns scenarios with attacks on a site with light pages, and newcomers to that site.
func newcomersBeside() (all []Scenario) {
	full := attack{"new+full-queue", func() []*Client { return join(flood(60, true, heavy("/heavy")), flood(60, true, light())) }}
	for _, x := range append(besideNewcomers(), full) {
		all = append(all, siege(x.name, site{}, func() []*Client {
			return join(people(20), manyNew(light()), x.others())
		}, "new", "human"))
	}
	return append(all, siege("new+shot40-parts", site{parts: true}, func() []*Client {
		visits := manyNew(light())
		for _, c := range visits { // as in a wiki, whose backend combines style sheets
			c.Rate, c.To, c.Once, c.Connections = 0, 0, true, 3
			c.Parts = []Page{{Path: "/a.css", CPU: 0.05}, {Path: "/b.css", CPU: 0.05}, {Path: "/c.css", CPU: 0.05}, part()}
		}
		return join(people(20), visits, flood(40, true, []Page{{Path: "/page", CPU: 0.05}}))
	}, "new", "new's parts", "human"))
}

// strangersOfFlatSites returns scenarios with newcomers to a site whose pages all cost the same, and a crawler
// that uses a new address for each request.
func strangersOfFlatSites() (all []Scenario) {
	for _, rate := range []float64{10, 13, 20} {
		all = append(all, siege(fmt.Sprintf("res-flat-%g/s", rate), alike(), func() []*Client {
			return join(thinking(people(20)), fewNew(flat()), flood(rate, true, flat()))
		}, "new", "human"))
	}
	return all
}

// crowds returns scenarios with flash crowds: many newcomers arrive within ten seconds at a site with few
// visitors, with and without a crawler.
func crowds() []Scenario {
	crowd := func(name string, n int, cost float64, crawlers int) Scenario {
		pages := []Page{{Path: "/page", CPU: cost}}
		return siege(name, site{}, func() []*Client {
			return join(newcomers(n, Attack+30, Attack+40, pages), asking(people(5), pages), lone(20)[:crawlers])
		}, "new", "human")
	}
	return []Scenario{
		crowd("flash500-60ms", 500, 0.06, 0),
		crowd("flash500-60ms+crawl", 500, 0.06, 1),
		crowd("flash100-150ms+crawl", 100, 0.15, 1),
	}
}

// expensivePeople returns scenarios with people whose own pages are so expensive that they use most of the
// machine, and a crawler. Without the crawler, 100, 99 and 99 % of the pages are served within a second.
func expensivePeople() (all []Scenario) {
	for _, x := range []struct {
		people            int
		page, crawl, good float64 // seconds; good: the fraction of pages served within a second
	}{
		{24, 0.090, 1, 0.98}, {20, 0.150, 2, 0.9}, {8, 0.300, 5, 0.7},
	} {
		name := fmt.Sprintf("dear-people%gms-crawl%gs", 1000*x.page, x.crawl)
		s := siege(name, alike(), func() []*Client {
			return join(asking(people(x.people), []Page{{Path: "/page", CPU: x.page}}),
				asking(lone(4), []Page{{Path: "/page", Query: "n=", CPU: x.crawl}}))
		}, "human")
		s.Demands[0].Good, s.Waiting = x.good, 0.9
		all = append(all, s, cold(s))
	}
	return all
}

// sessions returns scenarios of a site whose pages all cost the same. Newcomers visit the site, and crawlers
// appear as many clients: with many cookies at one address, or with many addresses and one User-Agent.
func sessions() (all []Scenario) {
	for _, n := range []int{16, 64} {
		s := siege(fmt.Sprintf("sess-%d-heavy400-flat", n), alike(), func() []*Client {
			return join(thinking(people(20)), fewNew(flat()), browsing(crawlers(n, 4, 0x20000001, 0, browser, "/heavy")))
		}, "new", "human")
		s.end = 600
		all = append(all, s)
	}
	oneAgent := siege("T4-sess16x2-new@60", alike(), func() []*Client {
		return join(thinking(people(20)), newcomers(30, Attack+60, Attack+80, flat()),
			browsing(crawlers(16, 2, 0x20000001, 0, func(int) string { return browser(0) }, "/heavy")))
	}, "new")
	addresses := siege("S3-addr-nocookie-ua-120x1", alike(), func() []*Client {
		return join(thinking(people(20)), newcomers(100, Attack+60, Attack+210, flat()), crawlers(120, 1, 0x20000001, strewn, browser, "/heavy"))
	}, "human", "new")
	oneAgent.end, addresses.end = 300, 300
	return append(all, oneAgent, addresses)
}

// Redirects returns scenarios with newcomers and crawlers, and a proxy that redirects newcomers. Browsers
// follow redirects. In some scenarios, crawlers follow redirects as well.
func Redirects() (all []Scenario) {
	for _, rate := range []float64{10, 13, 20} {
		all = append(all, flatRedirects(fmt.Sprintf("res-flat-%g/s", rate), func() []*Client {
			return flood(rate, true, flat())
		}))
	}
	for _, x := range besideNewcomers() {
		all = append(all, redirects(x.name, site{}, func() []*Client {
			return join(people(20), firstVisits(150, Attack+20, Attack+170, light()), x.others())
		}))
	}
	for _, x := range []struct {
		n   int
		cpu float64
	}{{100, 0.150}, {500, 0.060}} {
		all = append(all, crowdRedirects(x.n, x.cpu))
	}
	return append(all, crawlerRedirects()...)
}

// redirects returns a scenario with an attack that may delay known people only slightly.
func redirects(name string, s site, clients func() []*Client) Scenario {
	return Scenario{
		Name: name + "+redirect", CPUs: 2, Workers: 16, site: s, Redirect: true, end: 240, clients: clients,
		Demands: []Demand{{Kind: "human", Good: 0.99}, {Kind: "new", Failed: -1}, {Kind: "attack", Failed: -1}},
	}
}

// flatRedirects returns a scenario of a site that sets cookies and whose pages all cost the same.
func flatRedirects(name string, others func() []*Client) Scenario {
	return redirects(name, alike(), func() []*Client {
		return join(thinking(people(20)), firstVisits(100, Attack+20, Attack+170, flat()), others())
	})
}

// crowdRedirects returns a scenario with a crowd that arrives within ten seconds, and a crawler.
func crowdRedirects(n int, cpu float64) Scenario {
	pages := []Page{{Path: "/page", CPU: cpu}}
	return redirects(fmt.Sprintf("flash%d-%gms+crawl", n, cpu*1000), site{}, func() []*Client {
		return join(asking(people(5), pages), firstVisits(n, Attack+30, Attack+40, pages), lone(20))
	})
}

// roundTrip is how many seconds a crawler takes to follow a redirect.
const roundTrip = 0.02

// crawlerRedirects returns scenarios with crawlers that follow the redirect: on a site whose pages all cost
// the same, and on one where the crawler's pages are expensive but have the same path as people's pages.
func crawlerRedirects() (all []Scenario) {
	for _, x := range []attack{
		{"again-40", func() []*Client { return strewnCrawlers(40, 1) }},
		{"follow-40", func() []*Client { return following(strewnCrawlers(40, 1)) }},
		{"follow-1x40", func() []*Client { return following(strewnCrawlers(1, 40)) }},
		{"follow-roam-10x4", func() []*Client { return roaming(following(strewnCrawlers(10, 4))) }},
	} {
		all = append(all, flatRedirects("flat+"+x.name, x.others))
		all = append(all, redirects("heavy+"+x.name, alike(), func() []*Client {
			return join(people(20), firstVisits(150, Attack+20, Attack+170, light()), asking(x.others(), heavy("/page")))
		}))
	}
	return all
}

// firstVisits returns newcomers whose browsers follow a redirect.
func firstVisits(n int, from, to float64, pages []Page) []*Client {
	return each(newcomers(n, from, to, pages), func(c *Client) { c.Follows = 0.1 })
}

// strewnCrawlers returns crawlers that look like browsers, request the pages that people request, and make the
// next request immediately after any answer.
func strewnCrawlers(n, parallel int) []*Client {
	return each(flatCrawlers(n, parallel, 0), func(c *Client) { c.Retry = 0 })
}

// following makes crawlers follow redirects with the cookie that comes with them.
func following(cs []*Client) []*Client {
	return each(cs, func(c *Client) { c.Follows = roundTrip })
}

// roaming makes crawlers change their address within its /24.
func roaming(cs []*Client) []*Client {
	return each(cs, func(c *Client) { c.Roams = true })
}
