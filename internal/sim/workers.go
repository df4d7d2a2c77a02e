package sim

// UnsetWorkers are scenarios of backends of whose workers the proxy is told
// nothing: few of them, as php-fpm has, or any number, as it needs none to wait.
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
		{"event-stream-200", anyWorkers, func() []*Client { return renamed("stream", holders(addresses{200, strewn}, 1, eventStream(), 0)) },
			[]Demand{{Kind: "stream", P95: 3000}}}, // all come within a second and a half
		{"event-poll-60", anyWorkers, func() []*Client { return polling(60) }, []Demand{{Kind: "poll", P95: 26e3}}},
		{"event-db-100", anyWorkers, func() []*Client { return renamed("db", waitingPages(100, 1)) },
			[]Demand{{Kind: "db", P95: 1300}}},
	} {
		s := besides(x.name, x.others)
		s.Workers, s.Unset, s.end = x.workers, true, 180
		s.Demands = append(s.Demands, x.more...)
		all = append(all, s)
	}
	return all
}

// renamed counts clients as of another kind.
func renamed(kind string, cs []*Client) []*Client {
	for _, c := range cs {
		c.Kind = kind
	}
	return cs
}
