package sim

import (
	"slices"

	"tempomat/classify"
	"tempomat/classify/robots"
	"tempomat/limiter"
)

// Scenario is a site and who comes to it. The attack begins at Attack.
type Scenario struct {
	Name    string
	CPUs    float64
	Workers int    // of the backend
	Unset   bool   // the proxy is not told how many workers there are
	Finds   bool   // but it finds that in the backend's configuration
	Blind   bool   // and it cannot look at the backend, only at the machine
	Forks   forks  // how the backend starts them
	Told    bool   // the kernel tells what each request has used
	Beside  other  // what else computes on the machine
	Cold    bool   // the proxy has just started: nobody is known, and the attack is on
	Idle    string // the scenario without the attack; what people's latency is compared to
	// Reference is what the simulator that the gate was found with has of it: the
	// median over five seeds of people's p50 and p95, in milliseconds. Zero: none.
	Reference [2]float64
	// Plain is a proxy that passes bodies and answers on as they come, and forgets
	// who disconnected once the backend has worked for as long as was guessed.
	Plain bool
	Spool float64 // bytes that the proxy keeps for each address; 0: any number
	// Redirect has newcomers that wait redirected.
	Redirect bool

	// Systems, if there are any, are the autonomous systems that addresses are of, and have
	// a class of their own, with a quarter of the CPUs each.
	Systems classify.Database
	// Verified are robots that can be verified there.
	Verified []robots.Robot

	// Steps has workers step down in priority as their requests compute, and what each
	// request has cost is told.
	Steps bool

	// Sites are those of the backend that are told apart. The host of one is its name and
	// ".test".
	Sites []limiter.SiteInfo

	// Instances are as many machines like that behind a balancer; 0: one. Requests go to them in turn, or, if it is
	// Sticky, those of an address to the same one. They share as share has it, which makes the sharer of one more,
	// and with Trust they have one secret.
	Instances     int
	Sticky, Trust bool
	share         func(*engine) limiter.Sharer

	// Rare is another of a family that is played in a full run.
	Rare bool

	// Demands are what each kind of clients must get, and Used and Waiting the
	// least part of the CPUs that must be used: all the time, and while anybody
	// waits at the gate. They hold from Attack, or from the start if it is Cold, to
	// the scenario's end.
	Demands []Demand
	Used    float64
	Waiting float64

	end     float64               // seconds; 0: End
	change  func(*limiter.Policy) // what is told to the limiter; nil: nothing
	site    site
	clients func() []*Client
}

// Demand is what a kind of clients must get. The kind without anything else is
// only reported.
type Demand struct {
	Kind   string
	Good   float64 // the least part of requests whose answer begins within a second
	Good5  float64 // the same within five
	P95    float64 // milliseconds, at most; 0: any
	Failed float64 // the greatest part that may fail; negative: any
}

// configured is how many workers the proxy is told of; 0: it is not told.
func (s Scenario) configured() int {
	if s.Unset {
		return 0
	}
	return s.Workers
}

// until is when the run ends, in seconds.
func (s Scenario) until() float64 {
	end := s.end
	if end == 0 {
		end = End
	}
	if s.Cold {
		end -= Attack
	}
	return end
}

// Attack is when attacks begin, in seconds, and End when the run does.
const (
	Attack = 60.0
	End    = 360.0
)

// Clients makes those of the scenario, for one run.
func (s Scenario) Clients() []*Client { return s.clients() }

const (
	lightPage = 0.020
	heavyPage = 0.400
	flatPage  = 0.150
)

func light() []Page            { return []Page{{Path: "/page", CPU: lightPage}} }
func heavy(path string) []Page { return []Page{{Path: path, CPU: heavyPage}} }
func flat() []Page             { return []Page{{Path: "/page", CPU: flatPage}} }
func person(i int) *Client {
	return &Client{
		Kind: "human", Address: uint32(0x0a000001 + i*0x30000), Agent: browser(i), //nolint:gosec // small
		Think: 1.5, Pages: light(), Browser: true, Follows: 0.1, Timeout: 10, Retry: 1,
	}
}

// people are so many persons, each with an address of their own.
func people(n int) (cs []*Client) {
	for i := range n {
		cs = append(cs, person(i))
	}
	return cs
}

// office is so many persons behind one address.
func office(n int) (cs []*Client) {
	for i := range n {
		c := person(i)
		c.Kind, c.Address, c.Agent = "nat", 0xc0a80101, browser(i%3)
		cs = append(cs, c)
	}
	return cs
}

// thinking makes clients that ask for pages that all cost the same, seldom.
func thinking(cs []*Client) []*Client {
	for _, c := range cs {
		c.Pages, c.Think = flat(), 8
	}
	return cs
}

// crawlers are so many clients, their addresses step apart.
func crawlers(n, parallel int, first, step uint32, agent func(int) string, path string) (cs []*Client) {
	for i := range n {
		cs = append(cs, &Client{
			Kind: "attack", Address: first + uint32(i)*step, Agent: agent(i),
			Parallel: parallel, Pages: heavy(path), Timeout: 30, Retry: 0.1, From: Attack,
		})
	}
	return cs
}

// flatCrawlers ask for the pages that people ask for.
func flatCrawlers(n, parallel int, think float64) []*Client {
	cs := crawlers(n, parallel, 0x20000001, 0x10000, browser, "")
	for _, c := range cs {
		c.Pages, c.Think = flat(), think
	}
	return cs
}

// flood asks so often each second, answered or not.
func flood(rate float64, fresh bool, pages []Page) []*Client {
	return []*Client{{
		Kind: "attack", Address: 0x20000001, Agent: robot(0), Rate: rate, Fresh: fresh,
		Pages: pages, Timeout: 30, From: Attack,
	}}
}

func lone(parallel int) []*Client {
	return crawlers(1, parallel, 0x20000001, 0, robot, "/heavy")
}

func dist(n int, path string) []*Client {
	return crawlers(n, 1, 0x22000001, 0x10000, browser, path)
}

// export is somebody whose one request takes a minute, and who goes on browsing.
func export() []*Client {
	admin := person(1)
	admin.Kind, admin.Address = "admin", 0x30000001
	return []*Client{admin, {
		Kind: "export", Address: 0x30000001, Agent: browser(1), Timeout: 290, Retry: 60, From: Attack, To: Attack + 1,
		Pages: []Page{{Path: "/export", CPU: 60, Exact: true}},
	}}
}

// atOnce has attacks begin with the run.
func atOnce(cs []*Client) []*Client {
	for _, c := range cs {
		if c.From == Attack {
			c.From = 0
		}
	}
	return cs
}

func join(all ...[]*Client) (cs []*Client) {
	for _, some := range all {
		cs = append(cs, some...)
	}
	return cs
}

// Scenarios are those of the reference simulator, which had two CPUs. Sites whose
// pages all cost the same give cookies and have parts, as standing is earned by
// them.
func Scenarios() []Scenario {
	all := scenariosOf(1)
	for i := range all {
		all[i].limit(0)
	}
	return all
}

// scenariosOf are the same with so many times the people and connections.
func scenariosOf(size float64) []Scenario {
	n := func(usual int) int { return max(1, int(float64(usual)*size+0.5)) }
	rate := func(usual float64) float64 { return usual * size }
	all := []Scenario{
		{Name: "idle", Reference: [2]float64{20, 29}, clients: func() []*Client { return people(n(20)) }},
		{Name: "crawl1", Reference: [2]float64{34, 54}, clients: func() []*Client { return join(people(n(20)), lone(n(20))) }},
		{Name: "net24", Reference: [2]float64{34, 55}, clients: func() []*Client {
			return join(people(n(20)), crawlers(n(40), 1, 0x20000001, 1, robot, "/heavy"))
		}},
		{Name: "uachrome", Reference: [2]float64{34, 54}, clients: func() []*Client {
			return join(people(n(20)), crawlers(n(40), 1, 0x20000001, 0x10000, func(int) string { return browser(0) }, "/heavy"))
		}},
		{Name: "dist120", Reference: [2]float64{34, 54}, clients: func() []*Client { return join(people(n(20)), dist(n(120), "/heavy")) }},
		{Name: "flood", Reference: [2]float64{34, 55}, clients: func() []*Client { return join(people(n(20)), flood(rate(100), false, heavy("/heavy"))) }},
		{Name: "oneshot", Reference: [2]float64{34, 54}, clients: func() []*Client { return join(people(n(20)), flood(rate(30), true, heavy("/heavy"))) }},
		{Name: "lightflood", Reference: [2]float64{51, 82}, clients: func() []*Client { return join(people(n(20)), flood(rate(200), false, light())) }},
		{Name: "lightshot", Reference: [2]float64{34, 54}, clients: func() []*Client { return join(people(n(20)), flood(rate(200), true, light())) }},
		{Name: "oneshot-samepath", Reference: [2]float64{34, 58}, clients: func() []*Client { return join(people(n(20)), flood(rate(30), true, heavy("/page"))) }},
		{Name: "nat", Reference: [2]float64{21, 37}, clients: func() []*Client { return join(people(n(20)), office(n(30))) }},
		{Name: "nat+crawl1", Reference: [2]float64{42, 79}, clients: func() []*Client { return join(people(n(20)), office(n(30)), lone(n(20))) }},
		{Name: "nat+dist120", Reference: [2]float64{46, 102}, clients: func() []*Client { return join(people(n(20)), office(n(30)), dist(n(120), "/heavy")) }},
		{Name: "export", Reference: [2]float64{21, 30}, clients: func() []*Client { return join(people(n(20)), export()) }},
		{Name: "mixed", Reference: [2]float64{46, 82}, clients: func() []*Client {
			return join(people(n(20)), office(n(30)), lone(n(20)), crawlers(n(20), 1, 0x21000001, 1, robot, "/heavy2"), dist(n(40), "/heavy3"), export())
		}},
		{Name: "restart", Cold: true, Reference: [2]float64{34, 54}, clients: func() []*Client { return atOnce(join(people(n(20)), lone(n(20)))) }},
		{Name: "lone", clients: func() []*Client { return lone(n(4)) }},
		{Name: "flat-idle", site: alike(), Reference: [2]float64{154, 221}, clients: func() []*Client { return thinking(people(n(20))) }},
		{Name: "flat1", site: alike(), Reference: [2]float64{206, 318}, clients: func() []*Client { return join(thinking(people(n(20))), flatCrawlers(1, n(20), 0)) }},
		{Name: "flat120", site: alike(), Reference: [2]float64{207, 319}, clients: func() []*Client { return join(thinking(people(n(20))), flatCrawlers(n(120), 1, 0)) }},
		{Name: "flat120think", site: alike(), Reference: [2]float64{206, 321}, clients: func() []*Client { return join(thinking(people(n(20))), flatCrawlers(n(120), 1, 3)) }},
		{Name: "flatshot", site: alike(), Reference: [2]float64{207, 318}, clients: func() []*Client { return join(thinking(people(n(20))), flood(rate(30), true, flat())) }},
		{Name: "flatnat", site: alike(), Reference: [2]float64{212, 340}, clients: func() []*Client {
			return join(thinking(people(n(10))), thinking(office(n(20))), flatCrawlers(n(120), 1, 3))
		}},
	}
	for i := range all {
		all[i].CPUs, all[i].Workers = 2, 16
		all[i].Idle = "idle"
		if all[i].site.cookies {
			all[i].Idle = "flat-idle"
		}
		all[i].Demands = []Demand{{Kind: "human", Good: 0.9}}
		switch all[i].Name {
		case "nat", "nat+crawl1", "nat+dist120", "mixed", "flatnat":
			all[i].Demands = append(all[i].Demands, Demand{Kind: "nat", Good: 0.9})
		case "export":
			all[i].Demands = append(all[i].Demands, Demand{Kind: "admin", Good: 0.9})
		case "lone":
			all[i].Demands[0] = Demand{Kind: "attack"}
		}
	}
	return all
}

// machine is another than that of Scenarios, which has two CPUs.
type machine struct {
	name string
	cpus float64
	size float64 // how many times the people and connections of two CPUs
}

// machines have as many people for each CPU, so that an idle site is as idle; the
// last has one CPU and the people of two.
func machines() []machine {
	return []machine{{"1cpu", 1, 0.5}, {"4cpu", 4, 2}, {"8cpu", 8, 4}, {"1cpu-crowded", 1, 1}}
}

// Machines are Scenarios on other machines. Most of them are Rare.
func Machines() (all []Scenario) {
	usual := []string{"crawl1", "dist120", "nat+dist120", "mixed", "flat120", "flatnat"}
	for i, m := range machines() {
		for _, s := range scenariosOf(m.size) {
			s.limit(i + 1)
			s.Rare = !slices.Contains(usual, s.Name)
			s.CPUs, s.Workers = m.cpus, int(8*m.cpus)
			s.Name, s.Idle = s.Name+"-"+m.name, s.Idle+"-"+m.name
			s.Reference, s.Waiting = [2]float64{}, 0.98
			all = append(all, s)
		}
	}
	return all
}

// shares are sites of a backend with their shares, named a, b, c and so on.
func shares(all ...float64) (sites []limiter.SiteInfo) {
	for i, share := range all {
		sites = append(sites, limiter.SiteInfo{Name: siteName(i), Share: share})
	}
	return sites
}

func siteName(i int) string { return "abcdefgh"[i : i+1] }

// of has clients ask for a site.
func of(i int, cs []*Client) []*Client {
	for _, c := range cs {
		c.Host = siteName(i) + ".test"
	}
	return cs
}

// called has clients be of another kind.
func called(kind string, cs []*Client) []*Client {
	for _, c := range cs {
		c.Kind = kind
	}
	return cs
}

// apart moves clients to other addresses.
func apart(by uint32, cs []*Client) []*Client {
	for _, c := range cs {
		c.Address += by
	}
	return cs
}

// posing is a crawl that comes as people do: from so many addresses, with browsers that bring
// cookies back and load the parts of their pages, for pages of so many CPU-seconds.
func posing(n int, think, cost float64) []*Client {
	return browsing(asking(flatCrawlers(n, 1, think), []Page{{Path: "/page", CPU: cost}}))
}

// saturating are clients that always ask, for pages of so many CPU-seconds.
func saturating(site, n int, cost float64) []*Client {
	cs := called(siteName(site), of(site, apart(uint32(site)<<24, posing(n, 0, cost)))) //nolint:gosec // few
	for _, c := range cs {
		c.From, c.Timeout = 0, 1000
	}
	return cs
}
