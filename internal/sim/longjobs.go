package sim

import "fmt"

// longJobs are exports of many seconds, which one address asks for on some
// connections.
func longJobs() (all []Scenario) {
	add := func(light, flat string, parallel int, page Page) {
		jobs := func() []*Client {
			cs := crawlers(1, parallel, 0x20000001, 0, robot, page.Path)
			cs[0].Pages, cs[0].Timeout = []Page{page}, 1000
			return cs
		}
		all = append(all,
			siege(light, site{}, func() []*Client { return join(people(20), jobs()) }, "human"),
			siege(flat, alike(), func() []*Client { return join(thinking(people(20)), jobs()) }, "human"))
	}
	add("longjobs-light", "longjobs-flat", 20, Page{Path: "/export", CPU: 30})
	for _, cost := range []float64{2, 5, 10, 30} {
		for _, n := range []int{4, 12, 20} {
			tail := fmt.Sprintf("%gs-%dconn", cost, n)
			add("lj-light-"+tail, "lj-flat-"+tail, n, Page{Path: "/export", Query: "id=", CPU: cost})
		}
	}
	return append(all, besideExports()...)
}

// besideExports are pages that are dear themselves, beside a few exports of a minute: while
// these compute, known people and newcomers wait for each other, and for nobody else.
func besideExports() (all []Scenario) {
	for _, x := range []struct {
		page, job float64
		parallel  int
		machine   string
	}{
		{0.3, 60, 3, ""}, {0.3, 60, 20, ""}, {0.6, 30, 3, ""}, {0.6, 60, 3, ""}, {0.6, 60, 20, ""}, {1, 60, 3, ""}, {2, 60, 3, ""},
		{0.1, 60, 3, "-1cpu"}, {0.3, 60, 20, "-1cpu"},
	} {
		page := []Page{{Path: "/page", CPU: x.page}}
		s := siege(fmt.Sprintf("exports%gs-%dconn-pages%gms%s", x.job, x.parallel, 1000*x.page, x.machine), site{}, func() []*Client {
			return join(asking(thinking(people(2)), page), newcomers(40, Attack+20, Attack+170, page), dearPages(x.parallel, "/export", x.job))
		}, "new", "human")
		if x.machine != "" {
			s.CPUs, s.Workers = 1, 8
		}
		all = append(all, s)
	}
	return all
}

// plainSites have pages of one cost, neither light nor heavy, and a crawler whose
// pages cost more.
func plainSites() (all []Scenario) {
	for _, cost := range []float64{0.09, 0.12, 0.15, 0.3} {
		for _, crawled := range []float64{0.4, 1, 2, 4} {
			all = append(all, siege(fmt.Sprintf("plain-people%gms-crawl%gs", cost*1000, crawled), alike(), func() []*Client {
				return join(asking(thinking(people(10)), []Page{{Path: "/page", CPU: cost}}), dearPages(4, "/heavy", crawled))
			}, "human"))
		}
	}
	gentle := func(name string, cpus float64, parallel int, cost float64) {
		s := siege(name, alike(), func() []*Client { return join(thinking(people(20)), dearPages(parallel, "/heavy", cost)) }, "human")
		s.CPUs, s.Workers = cpus, int(8*cpus)
		all = append(all, s)
	}
	for _, parallel := range []int{1, 2, 4} {
		for _, cost := range []float64{2, 8} {
			gentle(fmt.Sprintf("gentle-%dconn-%gs-flat150", parallel, cost), 2, parallel, cost)
		}
	}
	for _, cpus := range []float64{4, 8} {
		gentle(fmt.Sprintf("gentle-cpus%g-8conn-2s", cpus), cpus, 8, 2)
		gentle(fmt.Sprintf("long-cpus%g-40conn-10s", cpus), cpus, 40, 10)
	}
	return append(all, afterwards())
}

// afterwards is a burst of long jobs, and the minutes after it.
func afterwards() Scenario {
	s := siege("wedge-60s-after", alike(), func() []*Client {
		cs := dearPages(20, "/heavy", 30)
		cs[0].To = Attack + 1
		return join(thinking(people(20)), cs)
	}, "human")
	s.end = 400
	return s
}
