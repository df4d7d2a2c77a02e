package sim

import "fmt"

// dearPeople are people whose own pages are dear, so that they use most of the
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
