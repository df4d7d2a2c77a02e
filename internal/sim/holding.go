package sim

import "fmt"

// These are pages of clients that hold workers because they send and read slowly.
func upload() Page { return Page{Path: "/page", Query: "save=", CPU: 0.001, Upload: 60e3} }
func chunks() Page {
	return Page{Path: "/page", Query: "save=", CPU: 0.001, Upload: 60e3, Chunked: true}
}
func image() Page       { return Page{Path: "/large.jpg", Query: "p=", CPU: fileCost, Answer: 400 << 10} }
func huge() Page        { return Page{Path: "/huge.bin", Query: "p=", CPU: 0.002, Answer: 8 << 20} }
func eventStream() Page { return Page{Path: "/stream", Query: "p=", CPU: 0.001, Stream: 60} }
func sleeper() Page     { return Page{Path: "/page", Query: "sleep=60000&p=", CPU: 0.001, Sleep: 60} }

// These speeds are in bytes per second.
const (
	bytePer5s  = 0.2
	bytePer30s = 1.0 / 30
	crawling   = 64.0
	modem      = 2e3
	megabit    = 125e3
)

// addresses is the distribution of an attacker's addresses: n addresses, each of which is step above the
// previous one.
type addresses struct {
	n    int
	step uint32
}

const (
	neighbours = 1       // all in one /24
	strewn     = 0x10000 // each in another /16
)

// holders returns clients that never give up, and request a page on the given number of connections from each
// of their addresses.
func holders(a addresses, parallel int, page Page, speed float64) (cs []*Client) {
	for i := range a.n {
		cs = append(cs, &Client{
			Kind: "attack", Address: 0x20000001 + uint32(i)*a.step, Agent: browser(0),
			Parallel: parallel, Pages: []Page{page}, Speed: speed, Timeout: 1e6, Retry: 1, From: Attack,
		})
	}
	return cs
}

// visitors returns people who visit a site where one script serves all pages, with different parameters.
func visitors(n int) []*Client {
	return each(people(n), func(c *Client) { c.Pages = []Page{{Path: "/page", Query: "ms=20&sleep=0&p=", CPU: lightPage}} })
}

// unharmed returns the demands of people, whichever clients hold workers.
func unharmed() []Demand { return []Demand{{Kind: "human", Good: 0.99, P95: 100}} }

// besides returns a scenario with people, who must be unharmed, and other clients.
func besides(name string, others func() []*Client) Scenario {
	return Scenario{
		Name: name, CPUs: 2, Workers: 16, site: site{cookies: true, parts: true},
		Demands: unharmed(), end: Attack + 90,
		clients: func() []*Client { return join(visitors(20), others()) },
	}
}

// cold returns the same scenario with a proxy that has just started.
func cold(s Scenario) Scenario {
	clients := s.clients
	s.Name, s.Cold = s.Name+"-cold", true
	s.clients = func() []*Client { return atOnce(clients()) }
	return s
}

// HoldingWorkers returns scenarios with clients that use almost no CPU time but hold the backend's workers.
// They send and read slowly, or request answers that take a long time.
func HoldingWorkers() (all []Scenario) {
	all = slowPages()
	for _, x := range []struct {
		name     string
		from     addresses
		parallel int
		page     Page
		speed    float64
	}{
		{"upload-1x24", addresses{1, 0}, 24, upload(), bytePer5s},
		{"upload-24x1", addresses{24, strewn}, 1, upload(), bytePer5s},
		{"upload-1x14-30s", addresses{1, 0}, 14, upload(), bytePer30s},
		{"chunks-1x24", addresses{1, 0}, 24, chunks(), bytePer5s},
		{"chunks-24x1", addresses{24, neighbours}, 1, chunks(), bytePer5s},
		{"chunks-40x1", addresses{40, strewn}, 1, chunks(), bytePer5s},
		{"read-1x24", addresses{1, 0}, 24, image(), crawling},
		{"read-24x1", addresses{24, strewn}, 1, image(), crawling},
		{"read-8MB-1x24", addresses{1, 0}, 24, huge(), modem},
		{"read-8MB-24x1", addresses{24, strewn}, 1, huge(), modem},
		{"stream-1x24", addresses{1, 0}, 24, eventStream(), 0},
		{"stream-24x1", addresses{24, neighbours}, 1, eventStream(), 0},
		{"stream-40x1", addresses{40, strewn}, 1, eventStream(), 0},
		{"sleep60-1x40", addresses{1, 0}, 40, sleeper(), 0},
		{"sleep60-24x2", addresses{24, neighbours}, 2, sleeper(), 0},
		{"sleep60-40x1", addresses{40, strewn}, 1, sleeper(), 0},
	} {
		s := besides(x.name, func() []*Client { return holders(x.from, x.parallel, x.page, x.speed) })
		all = append(all, s, cold(s))
	}
	all = append(all, fullSpools()...)
	all = append(all, computingChunks()...)
	return append(all, parallelUploads(), novelChunks(), holdersAndCrawler(), cold(holdersAndCrawler()), listeners(), officeListeners(), downloads())
}

// novelChunks returns a scenario with three known clients whose bodies never end. Each of their requests is for
// a page of a new kind, so the proxy never learns how long they take. People's pages aren't short.
func novelChunks() Scenario {
	return Scenario{
		Name: "novel-chunks-3x5", CPUs: 2, Workers: 16, Demands: []Demand{{Kind: "human", Good: 0.99, P95: 480}}, end: Attack + 90,
		clients: func() []*Client {
			page := chunks()
			page.Query, page.Novel = "", true
			from := addresses{3, strewn}
			before := each(called("before", holders(from, 1, Page{Path: "/page", CPU: lightPage}, 0)), func(c *Client) { c.From, c.To, c.Think = 0, Attack, 2 })
			return join(asking(thinking(people(3)), []Page{{Path: "/page", CPU: 0.3}}), before, holders(from, 5, page, bytePer5s))
		},
	}
}

// parallelUploads returns a scenario with a client that sends twelve large bodies at once, while CPUs and workers are
// free. The proxy knows what the page costs.
func parallelUploads() Scenario {
	uploads := func(kind string, parallel int, seconds float64) []*Client {
		page := Page{Path: "/upload", CPU: 1.5, Exact: true, Upload: 60e3, Chunked: true}
		return called(kind, holders(addresses{1, 0}, parallel, page, page.Upload/seconds))
	}
	s := besides("uploads-1x12-75s", func() []*Client {
		before := each(uploads("before", 4, 5), func(c *Client) { c.From, c.To = 0, Attack-5 })
		return join(before, uploads("upload", 12, 75))
	})
	s.Workers, s.end, s.Demands = 150, Attack+240, []Demand{{Kind: "human", Good: 0.99}, {Kind: "upload"}}
	return s
}

// computingChunks returns scenarios with clients whose bodies end after three seconds or a minute, all at about the
// same time. Their pages then compute for long.
func computingChunks() (all []Scenario) {
	for _, x := range []struct {
		addresses, parallel, workers int
		cost, good                   float64
		speed                        float64
		name                         string
	}{{1, 96, 150, 5, 0.8, 20e3, ""}, {8, 12, 16, 60, 0.9, 20e3, ""}, {1, 96, 150, 5, 0.8, 1e3, "-slow"}} {
		page := chunks()
		page.CPU = x.cost
		all = append(all, Scenario{
			Name: fmt.Sprintf("chunks-%dx%d-%gs%s", x.addresses, x.parallel, x.cost, x.name), CPUs: 2, Workers: x.workers, site: alike(),
			Demands: []Demand{{Kind: "human", Good: x.good}}, end: Attack + max(90, 2.5*page.Upload/x.speed),
			clients: func() []*Client {
				from := holders(addresses{x.addresses, strewn}, x.parallel, page, x.speed)
				return join(thinking(people(20)), newcomers(80, Attack+5, Attack+85, flat()), from)
			},
		})
	}
	return all
}

// fullSpools returns scenarios with clients that read slowly, and request more than the proxy may buffer for an
// address or in total. The proxy forwards the rest at the clients' speed, so they hold workers.
func fullSpools() (all []Scenario) {
	for _, x := range []struct {
		name     string
		from     addresses
		parallel int
		spool    float64
	}{
		{"read-spool-32MB-1x24", addresses{1, 0}, 24, 32 << 20},
		{"read-no-spool-1x24", addresses{1, 0}, 24, 1},
		{"read-no-spool-24x1", addresses{24, neighbours}, 1, 1},
		{"read-no-spool-40x1", addresses{40, strewn}, 1, 1},
	} {
		s := besides(x.name, func() []*Client { return holders(x.from, x.parallel, huge(), modem) })
		s.Spool = x.spool
		all = append(all, s, cold(s))
	}
	return all
}

// holdersAndCrawler returns a scenario with all these kinds of clients at once, and a crawler that uses CPUs.
func holdersAndCrawler() Scenario {
	s := besides("all+crawl", func() []*Client {
		cs := lone(20)
		for i, p := range []Page{upload(), chunks(), image(), eventStream(), sleeper()} {
			h := holders(addresses{1, 0}, 12, p, crawling)
			h[0].Address += uint32(i+1) << 20
			cs = append(cs, h...)
		}
		return cs
	})
	s.Waiting = 0.9
	return s
}

// listeners returns a scenario with people, some of whom keep an event stream open.
func listeners() Scenario {
	s := besides("people-stream-6", func() []*Client {
		return each(people(6), func(c *Client) { c.Kind, c.Pages, c.Think, c.Timeout = "stream", []Page{eventStream()}, 1, 30 })
	})
	s.Demands = append(s.Demands, Demand{Kind: "stream", Good: 0.99})
	return s
}

// officeListeners returns a scenario in which an office keeps more event streams open than one address may while
// workers are short. Many workers are free.
func officeListeners() Scenario {
	s := listeners()
	s.Name, s.Workers = "office-stream-80", 150
	s.clients = func() []*Client {
		office := behind(people(80))
		return join(visitors(20), each(office, func(c *Client) { c.Kind, c.Pages, c.Think, c.Timeout = "stream", []Page{eventStream()}, 1, 30 }))
	}
	return s
}

// downloads returns a scenario with people, some of whom download large files on slow connections.
func downloads() Scenario {
	s := besides("people-8MB-20", func() []*Client {
		return each(people(20), func(c *Client) { c.Kind, c.Pages, c.Speed, c.Think = "reader", []Page{huge()}, megabit, 5 })
	})
	s.Demands = append(s.Demands, Demand{Kind: "reader", Good: 0.99})
	return s
}

// slowPages returns scenarios with a site on which people's own pages wait, and with clients that would hold
// all workers that aren't kept for short requests.
func slowPages() (all []Scenario) {
	waiting := func() []*Client {
		return each(asking(people(30), []Page{{Path: "/report", CPU: lightPage, Sleep: 2}}), func(c *Client) { c.Think = 8 })
	}
	add := func(name string, good5 float64, clients func() []*Client) {
		s := siege(name, alike(), clients, "human")
		s.Waiting, s.Demands[0].Good5, s.Demands[0].Failed = 0, good5, 0.02
		all = append(all, s)
	}
	sleeping := Page{Path: "/dump", Query: "p=", CPU: 0.001, Sleep: 20}
	add("waiting-people+holds-20", 0.95, func() []*Client { return join(waiting(), holders(addresses{1, 0}, 20, sleeping, 0)) })
	add("waiting-people+strangers-hold", 0.92, func() []*Client { return join(waiting(), flood(1, true, []Page{sleeping})) })
	return all
}

// HangUps returns scenarios with clients that request expensive pages and disconnect at once. The backend
// continues to work on these pages. The clients must be charged for this work, and may not delay other clients.
func HangUps() (all []Scenario) {
	for _, x := range []struct {
		name  string
		from  addresses
		rate  float64 // requests per second from each address
		after float64 // seconds
		page  Page
	}{
		{"hangup-4/s-30ms", addresses{1, 0}, 4, 0.030, nineSeconds()},
		{"hangup-4/s-200ms", addresses{1, 0}, 4, 0.200, nineSeconds()},
		{"hangup-2/s-300ms", addresses{1, 0}, 2, 0.300, nineSeconds()},
		{"hangup-4/s-3s", addresses{1, 0}, 4, 3, nineSeconds()},
		{"hangup-8addr-30ms", addresses{8, strewn}, 0.5, 0.030, nineSeconds()},
		{"hangup-8addr-200ms", addresses{8, strewn}, 1, 0.200, nineSeconds()},
		{"hangup-8neighbours-30ms", addresses{8, neighbours}, 1, 0.030, nineSeconds()},
		{"hangup-40addr-30ms", addresses{40, strewn}, 0.25, 0.030, nineSeconds()},
		{"hangup-20/s-1s-pages", addresses{1, 0}, 20, 0.030, Page{Path: "/page", Query: "ms=1000&sleep=0&p=", CPU: 1, Exact: true}},
		{"hangup-own-path", addresses{1, 0}, 4, 0.030, Page{Path: "/export", CPU: 9.5, Exact: true}},
	} {
		s := besides(x.name, func() []*Client { return leavers(x.from, x.rate, x.after, x.page) })
		s.Used = 0.9
		all = append(all, s, cold(s))
	}
	for _, x := range []struct {
		name string
		page Page
	}{{"hangup-sleep60", sleeper()}, {"hangup-stream", eventStream()}, {"hangup-upload", chunks()}} {
		all = append(all, besides(x.name, func() []*Client {
			cs := leavers(addresses{1, 0}, 4, 0.2, x.page)
			cs[0].Speed = bytePer5s
			return cs
		}))
	}
	return all
}

// nineSeconds returns a page of the site's only script that costs 9.5 CPU-seconds.
func nineSeconds() Page {
	return Page{Path: "/page", Query: "ms=9500&sleep=0&p=", CPU: 9.5, Exact: true}
}

// leavers returns clients that make requests at a rate, and disconnect after the given number of seconds.
func leavers(a addresses, rate, after float64, page Page) []*Client {
	return each(holders(a, 1, page, 0), func(c *Client) { c.Rate, c.HangsUp = rate, after })
}

// UnsetWorkers returns scenarios in which the backend's number of workers isn't configured in the proxy. There
// are either few workers, as in php-fpm, or any number, so no request has to wait for one.
func UnsetWorkers() (all []Scenario) {
	for _, x := range []struct {
		name    string
		workers int
		others  func() []*Client
		more    []Demand
	}{
		{"fpm-5-crawl", 5, func() []*Client { return lone(20) }, nil},
		{"fpm-5-dist", 5, func() []*Client { return dist(40, "/heavy") }, nil},
		{"fpm-5-sleep", 5, func() []*Client { return holders(addresses{1, 0}, 20, sleeper(), 0) }, nil},
		{"fpm-5-stream", 5, func() []*Client { return holders(addresses{1, 0}, 20, eventStream(), 0) }, nil},
		{"event-crawl", anyWorkers, func() []*Client { return lone(20) }, nil},
		{"event-stream-200", anyWorkers, func() []*Client { return called("stream", holders(addresses{200, strewn}, 1, eventStream(), 0)) },
			[]Demand{{Kind: "stream", P95: 3000}}}, // all of these clients arrive within 1.5 s
		{"event-poll-60", anyWorkers, func() []*Client { return polling(60) }, []Demand{{Kind: "poll", P95: 26e3}}},
		{"event-db-100", anyWorkers, func() []*Client { return called("db", waitingPages(100, 1)) },
			[]Demand{{Kind: "db", P95: 1300}}},
	} {
		s := besides(x.name, x.others)
		s.Workers, s.Unset, s.end = x.workers, true, 180
		s.Demands = append(s.Demands, x.more...)
		all = append(all, s)
	}
	return all
}
