package main

import "time"

// scenario is an ordinary load.
type scenario struct {
	name   string
	lasts  time.Duration
	spare  bool    // the load leaves CPUs and workers idle, so no request may wait longer
	rate   float64 // the smallest allowed fraction of the pages per second; 0: 0.95
	slack  float64 // the factor by which the slowest twentieth may take longer; 0: 1.1
	burns  bool    // another program computes on each CPU
	nice   int     // the nice value of that program
	groups []group
}

func scenarios() []scenario {
	const ms, s = time.Millisecond, time.Second
	quick := group{name: "people", users: 5, page: "/cpu.php?ms=30", think: s, assets: 6, cookies: true, conns: 6}
	waits := func(users int, spread time.Duration, page string) group {
		return group{name: "people", users: users, spread: spread, page: page, cookies: true, conns: 6}
	}
	office := group{name: "office", users: 40, oneAddress: true, spread: 4 * s, page: "/cpu.php?ms=80", assets: 6, think: 4 * s, conns: 6}
	return []scenario{
		{name: "wait1s-20", lasts: 20 * s, spare: true, groups: []group{waits(20, s, "/cpu.php?ms=5&w=1000")}},
		{name: "wait1s-60", lasts: 15 * s, spare: true, groups: []group{waits(60, s, "/cpu.php?ms=5&w=1000")}},
		{name: "wait3s-40", lasts: 25 * s, spare: true, groups: []group{
			{name: "waiting", users: 40, spread: 2 * s, page: "/cpu.php?ms=5&w=3000", cookies: true, conns: 6, think: 2 * s},
			{name: "people", users: 5, page: "/cpu.php?ms=20", think: s, cookies: true},
		}},
		{name: "wait40s-30", lasts: 50 * s, spare: true, groups: []group{{name: "people", once: true, users: 30, spread: s, page: "/cpu.php?ms=2&w=40000"}}},
		{name: "nice19-wait", lasts: 15 * s, spare: true, burns: true, nice: 19, groups: []group{waits(15, s, "/cpu.php?ms=8&w=600")}},
		{name: "nice0-people", lasts: 15 * s, burns: true, groups: []group{
			{name: "people", users: 5, page: "/cpu.php?ms=60", think: s, assets: 8, cookies: true, conns: 6},
		}},
		{name: "one-address-150", lasts: 40 * s, groups: []group{
			{name: "class", once: true, users: 150, spread: 500 * ms, oneAddress: true, page: "/cpu.php?ms=100", assets: 6, cookies: true, conns: 6},
		}},
		{name: "flash200", lasts: 40 * s, groups: []group{
			{name: "people", once: true, users: 200, spread: s, page: "/cpu.php?ms=80", assets: 14, cookies: true, conns: 6},
		}},
		{name: "office40", lasts: 25 * s, groups: []group{office,
			{name: "others", users: 8, spread: 2 * s, page: "/cpu.php?ms=80", assets: 6, think: 4 * s, cookies: true, conns: 6},
		}},
		{name: "events60", lasts: 45 * s, spare: true, groups: []group{
			{name: "streams", users: 60, spread: 5 * s, page: "/ev.php?n=15", cookies: true, timeout: 120 * s}, quick,
		}},
		{name: "polls60", lasts: 45 * s, spare: true, groups: []group{
			{name: "polls", users: 60, spread: 5 * s, page: "/poll.php?s=20", cookies: true, timeout: 120 * s}, quick,
		}},
		{name: "api8-cpu", lasts: 20 * s, groups: []group{
			{name: "api", users: 8, oneAddress: true, agent: "okhttp/4", page: "/cpu.php?ms=200"}, quick,
		}},
		{name: "export", lasts: 50 * s, groups: []group{
			{name: "owner", users: 1, reps: 2, page: "/cpu.php?ms=8000", cookies: true, at: 2 * s, think: 2 * s},
			{name: "people", rate: 5, page: "/cpu.php?ms=120", assets: 4, cookies: true, conns: 6, timeout: 60 * s},
		}},
		// Over the loopback interface, storing a body first makes the request take 50 % longer.
		{name: "uploads", lasts: 20 * s, spare: true, rate: 0.7, slack: 1.6, groups: []group{
			{name: "uploads", users: 3, page: "/up.php", body: 50_000_000, agent: "curl/8", timeout: 60 * s}, quick,
		}},
		{name: "parts400", lasts: 15 * s, spare: true, slack: 1.6, groups: []group{
			{name: "people", users: 1, page: "/cpu.php?ms=20", assets: 400, think: 2 * s, cookies: true, conns: 100},
		}},
		{name: "no-cookies", lasts: 30 * s, groups: []group{
			{name: "crawl", users: 60, page: "/cpu.php?ms=200&n=%N", agent: "SomeBot/1.0", timeout: 60 * s, spread: s},
			{name: "webhook", rate: 0.7, at: 3 * s, oneAddress: true, body: 800, agent: "Stripe/1.0", page: "/cpu.php?ms=30&n=hook", timeout: 20 * s},
			{name: "feed", rate: 0.7, at: 3 * s, agent: "Tiny Tiny RSS/23.0", page: "/cpu.php?ms=40&n=feed", timeout: 20 * s},
		}},
	}
}
