package sim

import "fmt"

// polling are people's long polls: each asks again as soon as it is answered.
func polling(n int) (cs []*Client) {
	for _, c := range people(n) {
		c.Kind, c.Pages, c.Think, c.Timeout = "poll", []Page{{Path: "/poll", CPU: 0.001, Sleep: 25}}, 0.05, 60
		cs = append(cs, c)
	}
	return cs
}

// waitingPages are people's pages that wait for a database.
func waitingPages(n int, sleep float64) []*Client {
	cs := people(n)
	for _, c := range cs {
		c.Pages = []Page{{Path: "/page", CPU: 0.010, Sleep: sleep}}
	}
	return cs
}

// Polls are scenarios of honest requests that hold workers and compute nothing:
// long polls, and pages that wait for a database.
func Polls() (all []Scenario) {
	for _, x := range []struct {
		polls  int
		crawl  bool
		failed float64 // of the polls
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
	return append(all, databases()...)
}

// databases are sites whose pages wait for one.
func databases() (all []Scenario) {
	for _, x := range []struct {
		name            string
		people, workers int
		sleep           float64
		crawler         float64 // seconds that its pages wait; 0: none
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
