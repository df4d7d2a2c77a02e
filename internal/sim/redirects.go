package sim

import "fmt"

// Redirects are scenarios of newcomers beside crawlers, behind a proxy that
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

// crowdRedirects is a crowd that comes within ten seconds, beside a crawler.
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
// all cost the same, and on one where theirs are dear under the path of people's.
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
