package sim

import "fmt"

// morePolls are long polls and pages that wait for a database, as Polls are, of
// other numbers and at a site that gives no cookies.
func morePolls() (all []Scenario) {
	for _, n := range []int{10, 15, 20, 40} {
		all = append(all, siege(fmt.Sprintf("poll-%d-people", n), site{}, func() []*Client {
			return join(people(n), polling(n))
		}, "human", "poll"))
	}
	for _, n := range []int{10, 20} {
		all = append(all, siege(fmt.Sprintf("pollcrawl-%d", n), site{}, func() []*Client {
			return join(people(20), polling(n), lone(20))
		}, "human", "poll"))
	}
	all = append(all, siege("pollcrawl-20-flat", alike(), func() []*Client {
		return join(thinking(people(20)), polling(20))
	}, "human", "poll"))
	for _, n := range []int{20, 60, 100} {
		few := siege(fmt.Sprintf("db-%d-10+300ms", n), site{}, func() []*Client { return waitingPages(n, 0.3) }, "human")
		many := few
		many.Name, many.Workers = few.Name+"-150w", 150
		all = append(all, few, many)
	}
	for _, x := range []struct {
		name            string
		sleep, crawlers float64
	}{{"300ms-30c-2s", 0.3, 2}, {"30ms-30c-2s", 0.03, 2}, {"300ms-30c-300ms", 0.3, 0.3}} {
		all = append(all, siege("dbcrawl-20-"+x.name, site{}, func() []*Client {
			return join(waitingPages(20, x.sleep), asking(lone(30), []Page{{Path: "/heavy", CPU: 0.010, Sleep: x.crawlers}}))
		}, "human"))
	}
	all = append(append(all, strangersPolls()...), halves()...)
	for i := range all { // workers run out, not CPUs
		all[i].Waiting = 0
	}
	return all
}

// halves are pages that compute half of their time and wait for a database in the other, of a crawler,
// where workers are no limit; and such that wait for 50 s before they compute for 10.
func halves() (all []Scenario) {
	for _, report := range []Page{{CPU: 2.5, Sleep: 2.5}, {CPU: 10, Sleep: 50}} {
		for _, cost := range []float64{0.02, 0.1} {
			page := []Page{{Path: "/page", CPU: cost}}
			s := siege(fmt.Sprintf("halves-20conn-%gs-pages%gms", report.CPU, 1000*cost), site{cookies: true}, func() []*Client {
				crawler := dearPages(20, "/report", report.CPU)
				crawler[0].Pages[0].Sleep = report.Sleep
				return join(asking(thinking(people(15)), page), newcomers(100, Attack+20, Attack+170, page), crawler)
			}, "new", "human")
			s.Workers = 150
			all = append(all, s)
		}
	}
	return all
}

// strangersPolls are those of one client that nobody knows, which hold all that strangers may, and
// newcomers of a small site whose pages are dear: nobody knows what these cost, either.
func strangersPolls() (all []Scenario) {
	for _, cost := range []float64{0.8, 1.5} {
		page := []Page{{Path: "/page", CPU: cost}}
		all = append(all, siege(fmt.Sprintf("polls120s-8conn-pages%gms", 1000*cost), site{cookies: true}, func() []*Client {
			polls := dearPages(8, "/poll", 0.001)
			polls[0].Pages[0].Sleep = 120
			return join(asking(thinking(people(1)), page), newcomers(30, Attack+20, Attack+170, page), polls)
		}, "new", "human"))
	}
	return all
}
