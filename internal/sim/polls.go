package sim

import "fmt"

// polling returns people with long polls. Each sends the next poll as soon as the previous one is answered.
func polling(n int) []*Client {
	return each(people(n), func(c *Client) {
		c.Kind, c.Pages, c.Think, c.Timeout = "poll", []Page{{Path: "/poll", CPU: 0.001, Sleep: 25}}, 0.05, 60
	})
}

// waitingPages returns people whose pages wait for a database.
func waitingPages(n int, sleep float64) []*Client {
	return each(people(n), func(c *Client) { c.Pages = []Page{{Path: "/page", CPU: 0.010, Sleep: sleep}} })
}

// Polls returns scenarios with legitimate requests that hold workers and compute little: long polls, and pages
// that wait for a database.
func Polls() (all []Scenario) {
	for _, x := range []struct {
		polls  int
		crawl  bool
		failed float64 // the fraction of the polls that may fail
	}{
		{10, false, 0}, {20, false, 0.15}, {30, false, -1}, {40, false, -1},
		{10, true, 0.01}, {20, true, 0.15},
	} {
		name := fmt.Sprintf("poll-%d", x.polls)
		s := besides(name, func() []*Client { return polling(x.polls) })
		if x.crawl {
			s = besides(name+"+crawl", func() []*Client { return join(polling(x.polls), lone(20)) })
			s.Waiting = 0.9
		}
		s.end = 240
		s.Demands = append(s.Demands, Demand{Kind: "poll", Failed: x.failed})
		all = append(all, s, cold(s))
	}
	return append(append(append(all, databases()...), checkout()), busySites()...)
}

// busySites returns scenarios of sites without an attack that have few workers, pages that are rarely read, or for half
// a minute more newcomers than they can serve.
func busySites() (all []Scenario) {
	add := func(name string, cpus float64, workers int, d Demand, clients func() []*Client) {
		all = append(all, Scenario{
			Name: name, CPUs: cpus, Workers: workers, Told: true, site: site{cookies: true}, end: Attack + 120, Demands: []Demand{d}, clients: clients,
		})
	}
	reading := func(n int, cost float64) []*Client {
		return each(asking(people(n), []Page{{Path: "/page", CPU: cost}}), func(c *Client) { c.Think, c.Timeout = 3, 60 })
	}
	arriving := func(rate float64, p Page) []*Client {
		return each(called("new", flood(rate, true, []Page{p})), func(c *Client) { c.Browser, c.Timeout = true, 60 })
	}
	add("two-workers", 2, 2, Demand{Kind: "human", Good: 0.95}, func() []*Client { return reading(35, 0.150) })
	add("two-workers-office", 2, 2, Demand{Kind: "human", Good: 0.9}, func() []*Client { return behind(reading(29, 0.150)) })
	add("two-workers-600ms", 2, 2, Demand{Kind: "human", Good: 0.5}, func() []*Client {
		return join(reading(9, 0.600), called("quick", apart(0x10000, people(20))))
	})
	add("office30-5w", 2, 5, Demand{Kind: "human", Good: 0.75}, func() []*Client {
		return behind(asking(reading(30, 0), []Page{{Path: "/page", CPU: 0.060, Sleep: 0.4}}))
	})
	add("rarely-read", 2, 16, Demand{Kind: "new", Good: 0.97}, func() []*Client {
		return arriving(30, Page{Path: "/blog/", Novel: true, CPU: 0.030, Sleep: 0.3})
	})
	add("pay", 4, 20, Demand{Kind: "pay", P95: 9000}, func() []*Client {
		pay := []Page{{Path: "/pay", CPU: 0.050, Sleep: 8, Upload: 100}}
		return join(reading(112, 0.100), each(called("pay", apart(0x10000, asking(people(4), pay))), func(c *Client) { c.Think, c.Timeout = 8, 60 }))
	})
	add("burst-20/s", 2, 16, Demand{Kind: "new", Failed: 0.05}, func() []*Client {
		return join(reading(20, 0.080), each(arriving(20, Page{Path: "/news", CPU: 0.100}), func(c *Client) { c.To = Attack + 30 }))
	})
	return all
}

// checkout returns a scenario of a full site with a form that is sent to its own URL. The answer waits for a payment
// service.
func checkout() Scenario {
	return Scenario{
		Name: "checkout", CPUs: 2, Workers: 16, site: site{cookies: true}, end: Attack + 120,
		Demands: []Demand{{Kind: "form", Good: 0.9}},
		clients: func() []*Client {
			form, pay := []Page{{Path: "/checkout", CPU: 0.050}}, []Page{{Path: "/checkout", CPU: 0.050, Sleep: 6, Upload: 100}}
			pays := each(called("pay", apart(0x20000, people(6))), func(c *Client) { c.Pages, c.Timeout = pay, 60 })
			return join(thinking(people(140)), called("form", apart(0x10000, asking(people(4), form))), pays)
		},
	}
}

// databases returns scenarios of sites whose pages wait for a database.
func databases() (all []Scenario) {
	for _, x := range []struct {
		name            string
		people, workers int
		sleep           float64
		crawler         float64 // seconds for which the crawler's pages wait; 0: no crawler
		p95             float64
	}{
		{"db-20-300ms", 20, 16, 0.3, 0, 400},
		{"db-60-300ms", 60, 16, 0.3, 0, 600},
		{"db-100-300ms-150w", 100, 150, 0.3, 0, 600},
		{"dbcrawl-300ms-2s", 20, 16, 0.3, 2, 800},
		{"dbcrawl-30ms-2s", 20, 16, 0.03, 2, 100},
		{"dbcrawl-300ms-300ms", 20, 16, 0.3, 0.3, 800},
	} {
		s := Scenario{
			Name: x.name, CPUs: 2, Workers: x.workers, end: Attack + 90,
			Demands: []Demand{{Kind: "human", Good: 0.99, P95: x.p95}},
			clients: func() []*Client {
				cs := waitingPages(x.people, x.sleep)
				if x.crawler > 0 {
					crawler := lone(30)
					crawler[0].Pages = []Page{{Path: "/heavy", CPU: 0.010, Sleep: x.crawler}}
					cs = append(cs, crawler...)
				}
				return cs
			},
		}
		all = append(all, s)
	}
	return all
}

// morePolls returns more scenarios like those of Polls, with other numbers of clients and a site that sets no
// cookies.
func morePolls() (all []Scenario) {
	for _, n := range []int{20, 40} {
		all = append(all, siege(fmt.Sprintf("poll-%d-people", n), site{}, func() []*Client {
			return join(people(n), polling(n))
		}, "human", "poll"))
	}
	for _, n := range []int{10, 20} {
		all = append(all, siege(fmt.Sprintf("pollcrawl-%d", n), site{}, func() []*Client {
			return join(people(20), polling(n), lone(20))
		}, "human", "poll"))
	}
	all = append(all, siege("dbcrawl-20-300ms-30c-2s", site{}, func() []*Client {
		return join(waitingPages(20, 0.3), asking(lone(30), []Page{{Path: "/heavy", CPU: 0.010, Sleep: 2}}))
	}, "human"))
	all = append(append(all, strangersPolls()...), halves()...)
	for i := range all { // workers are short, not CPUs
		all[i].Waiting = 0
	}
	return all
}

// halves returns scenarios with a crawler and enough workers. The crawler's pages compute for half of their
// time and wait for a database for the other half, or wait for 50 s before they compute for 10 s.
func halves() (all []Scenario) {
	for _, report := range []Page{{CPU: 2.5, Sleep: 2.5}, {CPU: 10, Sleep: 50}} {
		for _, cost := range []float64{0.02, 0.1} {
			page := []Page{{Path: "/page", CPU: cost}}
			s := siege(fmt.Sprintf("halves-20conn-%gs-pages%gms", report.CPU, 1000*cost), site{cookies: true}, func() []*Client {
				crawler := expensivePages(20, "/report", report.CPU)
				crawler[0].Pages[0].Sleep = report.Sleep
				return join(asking(thinking(people(15)), page), newcomers(100, Attack+20, Attack+170, page), crawler)
			}, "new", "human")
			s.Workers = 150
			all = append(all, s)
		}
	}
	return all
}

// strangersPolls returns scenarios of a small site with expensive pages. The long polls of one stranger hold
// all workers that strangers may hold. Newcomers request pages whose cost isn't known yet.
func strangersPolls() (all []Scenario) {
	for _, cost := range []float64{0.8, 1.5} {
		page := []Page{{Path: "/page", CPU: cost}}
		all = append(all, siege(fmt.Sprintf("polls120s-8conn-pages%gms", 1000*cost), site{cookies: true}, func() []*Client {
			polls := expensivePages(8, "/poll", 0.001)
			polls[0].Pages[0].Sleep = 120
			return join(asking(thinking(people(1)), page), newcomers(30, Attack+20, Attack+170, page), polls)
		}, "new", "human"))
	}
	return all
}
