package sim

import (
	"fmt"
	"slices"
)

// ordinary is a load without an attack. Its numbers of clients are for a machine with two CPUs; for other
// machines, they are scaled by the number of CPUs.
type ordinary struct {
	name    string
	beside  other
	seconds float64 // 0: 60
	clients func(n func(int) int) []*Client
}

// users returns people with different addresses who make one request after another, and wait up to a minute for
// each answer.
func users(n int, think float64, p Page) (cs []*Client) {
	for i := range n {
		cs = append(cs, &Client{
			Kind: "human", Address: uint32(0x0a000001 + i*0x30000), Agent: browser(i),
			Think: think, Pages: []Page{p}, Browser: true, Follows: 0.1, Timeout: 60, Retry: 1,
		})
	}
	return cs
}

// others returns users of another kind, with different addresses.
func others(kind string, n int, think float64, p Page) []*Client {
	return each(users(n, think, p), func(c *Client) { c.Kind, c.Address = kind, c.Address+0x10000 })
}

// withParts makes browsers load the given number of parts of each page, on the given number of connections.
func withParts(cs []*Client, parts, connections int) []*Client {
	return each(cs, func(c *Client) { c.Parts, c.Connections = slices.Repeat([]Page{part()}, parts), connections })
}

// once makes each client send only one request. The requests arrive within the given number of seconds.
func once(cs []*Client, within float64) []*Client {
	for i, c := range cs {
		c.Once, c.From = true, within*float64(i)/float64(len(cs))
	}
	return cs
}

// behind puts clients behind one address.
func behind(cs []*Client) []*Client {
	return each(cs, func(c *Client) { c.Address = 0xc0a80101 })
}

// waits returns a page that computes for a moment, and then waits for a remote service.
func waits(seconds float64) Page { return Page{Path: "/page", CPU: 0.005, Sleep: seconds} }

func computes(seconds float64) Page { return Page{Path: "/page", CPU: seconds} }

// quick returns people with light pages, to be added to other clients.
func quick(n int) []*Client { return withParts(others("quick", n, 1, computes(0.030)), 6, 6) }

// waiting returns loads of sites whose pages wait most of the time.
func waiting() (all []ordinary) {
	for _, x := range []struct {
		users int
		wait  float64
	}{{20, 0.05}, {20, 0.3}, {20, 1}, {60, 1}, {20, 3}, {30, 10}} {
		all = append(all, ordinary{name: fmt.Sprintf("%dx5ms+%gs", x.users, x.wait), clients: func(n func(int) int) []*Client {
			return users(n(x.users), 0, waits(x.wait))
		}})
	}
	return append(all,
		ordinary{name: "30x5ms+40s", seconds: 100, clients: func(n func(int) int) []*Client {
			return once(users(n(30), 0, waits(40)), 1)
		}},
		ordinary{name: "40x5ms+3s-think2", clients: func(n func(int) int) []*Client {
			return join(users(n(40), 2, waits(3)), quick(n(5)))
		}},
		ordinary{name: "shop40x20ms+1.2s", clients: func(n func(int) int) []*Client {
			return users(n(40), 3, Page{Path: "/page", CPU: 0.020, Sleep: 1.2})
		}},
		ordinary{name: "4new-10ms+1.5s", clients: func(n func(int) int) []*Client {
			return once(users(n(600), 0, Page{Path: "/page", CPU: 0.010, Sleep: 1.5}), 150)
		}},
		ordinary{name: "20new-10ms+.5s", clients: func(n func(int) int) []*Client {
			return once(users(n(3000), 0, Page{Path: "/page", CPU: 0.010, Sleep: 0.5}), 150)
		}},
		ordinary{name: "20x60ms+.2s", clients: func(n func(int) int) []*Client {
			return users(n(20), 1, Page{Path: "/page", CPU: 0.060, Sleep: 0.2})
		}},
		ordinary{name: "streams60x15s", clients: func(n func(int) int) []*Client {
			streams := others("stream", n(60), 0, Page{Path: "/events", CPU: 0.005, Stream: 15})
			return join(each(streams, func(c *Client) { c.Timeout = 120 }), quick(n(5)))
		}},
		ordinary{name: "polls60x20s", clients: func(n func(int) int) []*Client {
			return join(others("poll", n(60), 0, Page{Path: "/poll", CPU: 0.001, Sleep: 20}), quick(n(5)))
		}},
	)
}

// manyAtOnce returns loads with many people at once.
func manyAtOnce() []ordinary {
	return []ordinary{
		{name: "flash200x80ms", clients: func(n func(int) int) []*Client {
			return withParts(once(users(n(200), 0, computes(0.080)), 1), 14, 6)
		}},
		{name: "class150x100ms", clients: func(n func(int) int) []*Client {
			return behind(withParts(once(users(n(150), 0, computes(0.100)), 0.5), 6, 6))
		}},
		{name: "class150x5ms+1s", clients: func(n func(int) int) []*Client {
			return behind(withParts(once(users(n(150), 0, waits(1)), 0.5), 6, 6))
		}},
		{name: "office40x80ms", clients: func(n func(int) int) []*Client {
			return join(behind(withParts(users(n(40), 4, computes(0.080)), 6, 6)), withParts(others("quick", n(8), 4, computes(0.080)), 6, 6))
		}},
		{name: "api8x200ms", clients: func(n func(int) int) []*Client {
			api := others("api", 1, 0, computes(0.200))
			api[0].Agent, api[0].Browser, api[0].Parallel = robot(0), false, n(8)
			return join(api, quick(n(5)))
		}},
		{name: "export8s", clients: func(n func(int) int) []*Client {
			owner := others("owner", 1, 2, Page{Path: "/export", CPU: 8, Exact: true})
			return join(owner, withParts(others("quick", n(10), 1, computes(0.120)), 4, 6))
		}},
	}
}

// browsers returns loads in which pages and their parts are requested in the way of browsers.
func browsers() []ordinary {
	return []ordinary{
		{name: "400parts-http2", clients: func(n func(int) int) []*Client {
			return withParts(users(n(2), 2, computes(0.020)), 400, 100)
		}},
		{name: "400parts-http1", clients: func(n func(int) int) []*Client {
			return withParts(users(n(5), 2, computes(0.020)), 400, 6)
		}},
		{name: "29xhr+4s", clients: func(n func(int) int) []*Client {
			slow := []Page{{Path: "/report", CPU: 0.005, Sleep: 4}}
			light := slices.Repeat([]Page{{Path: "/api", CPU: 0.005}}, 29)
			return each(users(n(4), 1, computes(0.020)), func(c *Client) { c.Parts, c.Connections = append(slow, light...), 6 })
		}},
		{name: "typing5+2s", clients: func(n func(int) int) []*Client {
			searching := each(users(n(5), 3, Page{Path: "/search", CPU: 0.005, Sleep: 2}), func(c *Client) { c.Types = 5 })
			return join(searching, quick(n(5)))
		}},
	}
}

// besideOthers returns loads of sites that share the machine with another program.
func besideOthers() (all []ordinary) {
	for _, x := range []struct {
		name string
		other
	}{
		{"nice19", other{weight: nicedWeight}},
		{"busy", other{weight: ordinaryWeight}},
		{"cron", other{weight: ordinaryWeight, every: 25, lasts: 8}},
	} {
		all = append(all,
			ordinary{name: "15x8ms+.6s-" + x.name, beside: x.other, clients: func(n func(int) int) []*Client {
				return users(n(15), 0, Page{Path: "/page", CPU: 0.008, Sleep: 0.6})
			}},
			ordinary{name: "5x60ms-" + x.name, beside: x.other, clients: func(n func(int) int) []*Client {
				return withParts(users(n(5), 1, computes(0.060)), 8, 6)
			}})
	}
	return all
}

// oneAddress returns loads of many people or connections behind one address.
func oneAddress() []ordinary {
	return []ordinary{
		{name: "api8x50ms+1s", clients: func(n func(int) int) []*Client {
			api := others("api", 1, 0, Page{Path: "/page", CPU: 0.050, Sleep: 1})
			api[0].Agent, api[0].Browser, api[0].Parallel = robot(0), false, n(8)
			return api
		}},
		{name: "login200x250ms", clients: func(n func(int) int) []*Client {
			return behind(once(users(n(200), 0, computes(0.250)), 1))
		}},
	}
}

// machineKind is a machine for an ordinary load, and the facts that the proxy can see about it.
type machineKind struct {
	name          string
	cpus, workers int
	forks         forks
	sees          sees
	told          bool // the kernel reports what requests cost
}

// sees is what the proxy can see of a backend.
type sees uint8

const (
	finds   sees = iota // the configured number of workers, and the accept queue
	queue               // only the accept queue
	said                // the number of workers is set in the proxy's configuration
	nothing             // only the CPU use of the machine
)

func machineKinds() []machineKind {
	return []machineKind{
		{"prefork", 2, 150, prefork, finds, false}, // Apache with mod_php, as Debian configures it
		{"prefork-told", 2, 150, prefork, finds, true},
		{"prefork-queue", 2, 150, prefork, queue, false},
		{"prefork-blind", 2, 150, prefork, nothing, false},
		{"150w-queue", 2, 150, allAtOnce, queue, false},
		{"16w", 2, 16, allAtOnce, said, false},
		{"16w-told", 2, 16, allAtOnce, said, true},
		{"16w-blind", 2, 16, allAtOnce, nothing, false},
		{"dynamic5", 2, 5, dynamic, finds, false},
		{"dynamic50", 2, 50, dynamic, finds, false},
		{"ondemand50", 2, 50, onDemand, finds, false},
		{"4w-1cpu", 1, 4, allAtOnce, said, false},
		{"40w-4cpu", 4, 40, allAtOnce, said, false},
		{"1000w-64cpu", 64, 1000, allAtOnce, said, false},
	}
}

// Ordinary returns sites without an attack, on machines of all kinds. If all is true, every load is combined
// with every kind of machine. Otherwise, all loads are combined with the most common kind, and a fifth of them
// with each of the other kinds.
func Ordinary(all bool) (rows []Scenario) {
	loads := slices.Concat(waiting(), manyAtOnce(), browsers(), besideOthers(), oneAddress())
	for i, m := range machineKinds() {
		for j, x := range loads {
			s := x.on(m)
			s.Rare = i > 0 && (i+j)%5 != 0 || m.cpus > 8 && j%3 != 0
			if all || !s.Rare {
				rows = append(rows, s)
			}
		}
	}
	return rows
}

func (x ordinary) on(m machineKind) Scenario {
	s := Scenario{
		Name: x.name + "-" + m.name, CPUs: float64(m.cpus), Workers: m.workers, Forks: m.forks,
		Unset: m.sees != said, Finds: m.sees == finds, Blind: m.sees == nothing,
		Told: m.told, Beside: x.beside, Cold: true, end: Attack + x.seconds, site: site{cookies: true},
	}
	if x.seconds == 0 {
		s.end = Attack + 60
	}
	n := func(usual int) int { return max(1, usual*m.cpus/2) }
	s.clients = func() []*Client { return x.clients(n) }
	for _, c := range s.clients() {
		if !slices.ContainsFunc(s.Demands, func(d Demand) bool { return d.Kind == c.Kind }) {
			s.Demands = append(s.Demands, Demand{Kind: c.Kind, Failed: -1})
			if len(c.Parts) > 0 && c.Part(c.Parts[0].Path) {
				s.Demands = append(s.Demands, Demand{Kind: c.Kind + "'s parts", Failed: -1})
			}
		}
	}
	return s
}
