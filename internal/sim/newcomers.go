package sim

import "fmt"

// newcomers are so many people, each with an address of their own, who come
// evenly between two times and ask for one page, once.
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

// fewNew and manyNew come while an attack is on.
func fewNew(pages []Page) []*Client  { return newcomers(100, Attack+20, Attack+170, pages) }
func manyNew(pages []Page) []*Client { return newcomers(150, Attack+20, Attack+170, pages) }

// newcomersBeside are newcomers of a site of light pages, in addition to attacks.
func newcomersBeside() (all []Scenario) {
	for _, x := range []struct {
		name   string
		others func() []*Client
	}{
		{"oneshot30heavy-samepath", func() []*Client { return flood(30, true, heavy("/page")) }},
		{"lightshot100", func() []*Client { return flood(100, true, light()) }},
		{"full-queue", func() []*Client { return join(flood(60, true, heavy("/heavy")), flood(60, true, light())) }},
		{"dist120-samepath", func() []*Client { return dist(120, "/page") }},
	} {
		all = append(all, siege("new+"+x.name, site{}, func() []*Client {
			return join(people(20), manyNew(light()), x.others())
		}, "new", "human"))
	}
	return append(all, siege("new+shot40-parts", site{parts: true}, func() []*Client {
		visits := manyNew(light())
		for _, c := range visits { // as a wiki's, whose styles are put together by the backend
			c.Rate, c.To, c.Once, c.Connections = 0, 0, true, 3
			c.Parts = []Page{{Path: "/a.css", CPU: 0.05}, {Path: "/b.css", CPU: 0.05}, {Path: "/c.css", CPU: 0.05}, part()}
		}
		return join(people(20), visits, flood(40, true, []Page{{Path: "/page", CPU: 0.05}}))
	}, "new", "human"))
}

// strangersOfFlatSites are newcomers of a site whose pages all cost the same,
// next to a crawler that has a new address for each request.
func strangersOfFlatSites() (all []Scenario) {
	for _, rate := range []float64{10, 13, 20} {
		all = append(all, siege(fmt.Sprintf("res-flat-%g/s", rate), alike(), func() []*Client {
			return join(thinking(people(20)), fewNew(flat()), flood(rate, true, flat()))
		}, "new", "human"))
	}
	return all
}

// crowds are flash crowds: newcomers who all come within ten seconds, to a site
// that few people were at, with a crawler next to them and without.
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

// dearPeople are people whose own pages are expensive, so that they use most of the
// machine by themselves: without the crawler, 100, 99 and 99 % come within a second.
func dearPeople() (all []Scenario) {
	for _, x := range []struct {
		people            int
		page, crawl, good float64 // seconds; the part of pages within a second
	}{
		{24, 0.090, 1, 0.98}, {20, 0.150, 2, 0.9}, {8, 0.300, 5, 0.7},
	} {
		name := fmt.Sprintf("dear-people%gms-crawl%gs", 1000*x.page, x.crawl)
		s := siege(name, site{cookies: true, parts: true}, func() []*Client {
			cs := people(x.people)
			for _, c := range cs {
				c.Pages = []Page{{Path: "/page", CPU: x.page}}
			}
			crawler := lone(4)
			crawler[0].Pages = []Page{{Path: "/page", Query: "n=", CPU: x.crawl}}
			return join(cs, crawler)
		}, "human")
		s.Demands[0].Good, s.Waiting = x.good, 0.9
		all = append(all, s, cold(s))
	}
	return all
}

// sessions are crawlers of many faces, at a site whose pages all cost the same
// and that newcomers come to: cookies of one address, or addresses that share a
// User-Agent.
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

// Redirects are scenarios of newcomers next to crawlers, behind a proxy that
// redirects newcomers. Browsers follow; crawlers do not, or do.
func Redirects() (all []Scenario) {
	for _, rate := range []float64{10, 13, 20} {
		all = append(all, flatRedirects(fmt.Sprintf("res-flat-%g/s", rate), func() []*Client {
			return flood(rate, true, flat())
		}))
	}
	all = append(all, lightRedirects()...)
	for _, x := range []struct {
		n   int
		cpu float64
	}{{100, 0.150}, {500, 0.060}} {
		all = append(all, crowdRedirects(x.n, x.cpu))
	}
	return append(all, crawlerRedirects()...)
}

// redirects is a scenario whose known people must hardly notice.
func redirects(name string, s site, clients func() []*Client) Scenario {
	return Scenario{
		Name: name + "+redirect", CPUs: 2, Workers: 16, site: s, Redirect: true, end: 240, clients: clients,
		Demands: []Demand{{Kind: "human", Good: 0.99}, {Kind: "new", Failed: -1}, {Kind: "attack", Failed: -1}},
	}
}

// flatRedirects are of a site whose pages all cost the same, and that gives cookies.
func flatRedirects(name string, others func() []*Client) Scenario {
	return redirects(name, site{cookies: true, parts: true}, func() []*Client {
		return join(thinking(people(20)), firstVisits(100, Attack+20, Attack+170, flat()), others())
	})
}

// lightRedirects are of a site whose pages are light, and that gives no cookies.
func lightRedirects() (all []Scenario) {
	for _, x := range []struct {
		name   string
		others func() []*Client
	}{
		{"new+lightshot100", func() []*Client { return flood(100, true, light()) }},
		{"new+oneshot30heavy-samepath", func() []*Client { return flood(30, true, heavy("/page")) }},
		{"new+dist120-samepath", func() []*Client { return dist(120, "/page") }},
	} {
		all = append(all, redirects(x.name, site{}, func() []*Client {
			return join(people(20), firstVisits(150, Attack+20, Attack+170, light()), x.others())
		}))
	}
	return all
}

// crowdRedirects is a crowd that comes within ten seconds, in addition to a crawler.
func crowdRedirects(n int, cpu float64) Scenario {
	pages := []Page{{Path: "/page", CPU: cpu}}
	return redirects(fmt.Sprintf("flash%d-%gms+crawl", n, cpu*1000), site{}, func() []*Client {
		known := people(5)
		for _, c := range known {
			c.Pages = pages
		}
		return join(known, firstVisits(n, Attack+30, Attack+40, pages), lone(20))
	})
}

// roundTrip is how many seconds a crawler takes to follow a redirect.
const roundTrip = 0.02

// crawlerRedirects are crawlers that know of the redirect, on a site whose pages
// all cost the same, and on one where theirs are expensive under the path of people's.
func crawlerRedirects() (all []Scenario) {
	for _, x := range []struct {
		name     string
		crawlers func() []*Client
	}{
		{"again-40", func() []*Client { return strewnCrawlers(40, 1) }},
		{"follow-40", func() []*Client { return following(strewnCrawlers(40, 1)) }},
		{"follow-1x40", func() []*Client { return following(strewnCrawlers(1, 40)) }},
		{"follow-roam-10x4", func() []*Client { return roaming(following(strewnCrawlers(10, 4))) }},
	} {
		all = append(all, flatRedirects("flat+"+x.name, x.crawlers))
		s := redirects("heavy+"+x.name, site{cookies: true, parts: true}, func() []*Client {
			crawlers := x.crawlers()
			for _, c := range crawlers {
				c.Pages = heavy("/page")
			}
			return join(people(20), firstVisits(150, Attack+20, Attack+170, light()), crawlers)
		})
		all = append(all, s)
	}
	return all
}

// firstVisits are newcomers whose browsers follow a redirect.
func firstVisits(n int, from, to float64, pages []Page) []*Client {
	cs := newcomers(n, from, to, pages)
	for _, c := range cs {
		c.Follows = 0.1
	}
	return cs
}

// strewnCrawlers pass for browsers, ask for the pages that people ask for, and
// again at once whatever comes of it.
func strewnCrawlers(n, parallel int) []*Client {
	cs := flatCrawlers(n, parallel, 0)
	for _, c := range cs {
		c.Retry = 0
	}
	return cs
}

// following has crawlers follow redirects, with the cookie that comes with them.
func following(cs []*Client) []*Client {
	for _, c := range cs {
		c.Follows = roundTrip
	}
	return cs
}

// roaming has crawlers change their address within its network.
func roaming(cs []*Client) []*Client {
	for _, c := range cs {
		c.Roams = true
	}
	return cs
}
