package sim

// HangUps are scenarios of clients that ask for dear pages and leave at once.
// The backend works on for nobody; that is to be paid, and to stand in nobody's
// way.
func HangUps() (all []Scenario) {
	for _, x := range []struct {
		name  string
		from  addresses
		rate  float64 // requests per second of each address
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

// nineSeconds is a page of the site's one script.
func nineSeconds() Page {
	return Page{Path: "/page", Query: "ms=9500&sleep=0&p=", CPU: 9.5, Exact: true}
}

// leavers ask so often, and leave so many seconds later.
func leavers(a addresses, rate, after float64, page Page) []*Client {
	cs := holders(a, 1, page, 0)
	for _, c := range cs {
		c.Rate, c.HangsUp = rate, after
	}
	return cs
}
