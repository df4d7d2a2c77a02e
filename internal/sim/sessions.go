package sim

import "fmt"

// sessions are crawlers of many faces, at a site whose pages all cost the same
// and that newcomers come to: cookies of one address, or addresses that share a
// User-Agent.
func sessions() (all []Scenario) {
	oneAgent := func(int) string { return browser(0) }
	for _, n := range []int{1, 16, 64} {
		s := siege(fmt.Sprintf("sess-%d-heavy400-flat", n), alike(), func() []*Client {
			return join(thinking(people(20)), fewNew(flat()), browsing(crawlers(n, 4, 0x20000001, 0, browser, "/heavy")))
		}, "new", "human")
		s.end = 600
		all = append(all, s)
	}
	for _, from := range []float64{15, 40, 60, 90, 120, 180} {
		s := siege(fmt.Sprintf("T4-sess16x2-new@%g", from), alike(), func() []*Client {
			return join(thinking(people(20)), newcomers(30, Attack+from, Attack+from+20, flat()),
				browsing(crawlers(16, 2, 0x20000001, 0, oneAgent, "/heavy")))
		}, "new")
		s.end = 300
		all = append(all, s)
	}
	for _, x := range []struct {
		name  string
		pages []Page
		think float64
	}{{"true", light(), 1.5}, {"false", []Page{{Path: "/page", CPU: 0.09}}, 6}} {
		s := siege("T4-sess16x2-lightpages-"+x.name, alike(), func() []*Client {
			cs := asking(people(20), x.pages)
			for _, c := range cs {
				c.Think = x.think
			}
			return join(cs, newcomers(100, Attack+60, Attack+210, x.pages),
				browsing(crawlers(16, 2, 0x20000001, 0, oneAgent, "/heavy")))
		}, "human", "new")
		s.end = 300
		all = append(all, s)
	}
	return append(all, faces()...)
}

// faces are other ways to have many.
func faces() (all []Scenario) {
	for _, x := range []struct {
		name        string
		n, parallel int
		agent       func(int) string
		cookies     bool
		step        uint32
	}{
		{"sess-ua", 4, 4, browser, true, 0},
		{"sess-ua", 8, 4, browser, true, 0},
		{"sess-robot", 16, 4, robot, true, 0},
		{"sess-ua-1conn", 16, 1, browser, true, 0},
		{"addr-nocookie-ua", 16, 4, browser, false, strewn},
		{"addr-nocookie-robot", 16, 4, robot, false, strewn},
		{"addr-nocookie-ua", 40, 1, browser, false, strewn},
		{"addr-nocookie-ua", 120, 1, browser, false, strewn},
		{"addr-nocookie-robot", 120, 1, robot, false, strewn},
		{"lone-chromeua", 1, 20, browser, false, 0},
	} {
		s := siege(fmt.Sprintf("S3-%s-%dx%d", x.name, x.n, x.parallel), alike(), func() []*Client {
			cs := crawlers(x.n, x.parallel, 0x20000001, x.step, x.agent, "/heavy")
			for _, c := range cs {
				c.Browser = x.cookies
			}
			return join(thinking(people(20)), newcomers(100, Attack+60, Attack+210, flat()), cs)
		}, "human", "new")
		s.end = 300
		all = append(all, s)
	}
	return all
}
