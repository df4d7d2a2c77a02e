package sim

import (
	"slices"

	"tempomat/classify"
	"tempomat/classify/robots"
	"tempomat/limiter"
)

// Scenario is a site with its clients. The attack begins at Attack.
type Scenario struct {
	Name    string
	CPUs    float64
	Workers int    // the backend's number of workers
	Unset   bool   // the number of workers isn't configured in the proxy
	Finds   bool   // the proxy finds the number of workers in the backend's configuration
	Blind   bool   // the proxy can see only the machine, not the backend
	Forks   forks  // how the backend starts its workers
	Told    bool   // the kernel reports the CPU time of each request
	Beside  other  // other programs that compute on the machine
	Cold    bool   // the proxy has just started: no client is known, and the attack has begun
	Idle    string // the scenario without the attack, with which people's latency is compared
	// Reference is the result of the earlier simulator with which the gate was designed: the medians over five
	// seeds of people's 50th and 95th percentiles, in milliseconds. Zero means that there is no such result.
	Reference [2]float64
	// Plain makes the proxy forward bodies and answers while they arrive. If a client has disconnected, the
	// proxy gives up on the request after the backend has worked on it for the guessed time.
	Plain bool
	Spool float64 // bytes that the proxy buffers for each address; 0: no limit
	// Redirect makes the proxy redirect newcomers that wait.
	Redirect bool

	// Systems, if set, maps addresses to autonomous systems. The systems form a class, in which each system may
	// use a quarter of the CPUs.
	Systems classify.Database
	// Verified are the robots that can be verified in these systems.
	Verified []robots.Robot

	// Steps makes workers reduce their priority while their requests compute. The kernel then also reports the
	// cost of each request.
	Steps bool

	// Sites are the backend's sites that are distinguished. The host of each is its name followed by ".test".
	Sites []limiter.SiteInfo

	// Instances is the number of equal machines behind a load balancer; 0 means one. Requests are distributed
	// in turn. If Sticky is true, all requests from an address go to the same instance. share makes the sharer
	// of each instance. If Trust is true, all instances have the same secret.
	Instances     int
	Sticky, Trust bool
	share         func(*engine) limiter.Sharer

	// Rare is true if the scenario is part only of a full run, because it is similar to others.
	Rare bool

	// Demands are the demands of each kind of client. Used is the smallest fraction of the CPUs that must be
	// used, and Waiting the smallest while any request waits at the gate. They apply from Attack, or from the
	// start if Cold is true, to the end of the scenario.
	Demands []Demand
	Used    float64
	Waiting float64

	end     float64               // seconds; 0: End
	change  func(*limiter.Policy) // changes the limiter's policy; may be nil
	site    site
	clients func() []*Client
}

// Demand is the result that a kind of client must get. If only Kind is set, results are reported without a
// check.
type Demand struct {
	Kind   string
	Good   float64 // the smallest fraction of requests whose answers begin within a second
	Good5  float64 // the same, within five seconds
	P95    float64 // the largest 95th percentile in milliseconds; 0: no limit
	Failed float64 // the largest fraction of requests that may fail; negative: no limit
}

// configured returns the number of workers that is configured in the proxy, or 0 if none is.
func (s Scenario) configured() int {
	if s.Unset {
		return 0
	}
	return s.Workers
}

// until returns the time at which the run ends, in seconds.
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

// Attack is the time at which attacks begin, and End the time at which the run ends, in seconds.
const (
	Attack = 60.0
	End    = 360.0
)

// Clients makes the clients of the scenario for one run.
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

// each applies a change to every client.
func each(cs []*Client, change func(c *Client)) []*Client {
	for _, c := range cs {
		change(c)
	}
	return cs
}

// people returns n people with different addresses.
func people(n int) (cs []*Client) {
	for i := range n {
		cs = append(cs, person(i))
	}
	return cs
}

// office returns n people behind one address.
func office(n int) (cs []*Client) {
	for i := range n {
		c := person(i)
		c.Kind, c.Address, c.Agent = "nat", 0xc0a80101, browser(i%3)
		cs = append(cs, c)
	}
	return cs
}

// thinking makes clients request pages that all cost the same, with long pauses.
func thinking(cs []*Client) []*Client {
	return each(cs, func(c *Client) { c.Pages, c.Think = flat(), 8 })
}

// crawlers returns n clients whose addresses are step apart.
func crawlers(n, parallel int, first, step uint32, agent func(int) string, path string) (cs []*Client) {
	for i := range n {
		cs = append(cs, &Client{
			Kind: "attack", Address: first + uint32(i)*step, Agent: agent(i),
			Parallel: parallel, Pages: heavy(path), Timeout: 30, Retry: 0.1, From: Attack,
		})
	}
	return cs
}

// flatCrawlers returns crawlers that request the same pages as people.
func flatCrawlers(n, parallel int, think float64) []*Client {
	return each(crawlers(n, parallel, 0x20000001, 0x10000, browser, ""), func(c *Client) { c.Pages, c.Think = flat(), think })
}

// flood returns a client that makes rate requests per second, whether or not they are answered.
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

// export returns a person who has a request that takes a minute, and browses in the meantime.
func export() []*Client {
	admin := person(1)
	admin.Kind, admin.Address = "admin", 0x30000001
	return []*Client{admin, {
		Kind: "export", Address: 0x30000001, Agent: browser(1), Timeout: 290, Retry: 60, From: Attack, To: Attack + 1,
		Pages: []Page{{Path: "/export", CPU: 60, Exact: true}},
	}}
}

// atOnce makes attacks begin at the start of the run.
func atOnce(cs []*Client) []*Client {
	return each(cs, func(c *Client) {
		if c.From == Attack {
			c.From = 0
		}
	})
}

func join(all ...[]*Client) (cs []*Client) {
	for _, some := range all {
		cs = append(cs, some...)
	}
	return cs
}

// Scenarios returns the scenarios of the earlier simulator, which had two CPUs. If all pages of a site cost the
// same, the site sets cookies and its pages have parts, because these then give clients their standing.
func Scenarios() []Scenario {
	all := scenariosOf(1)
	for i := range all {
		all[i].limit(0)
	}
	return all
}

// scenariosOf returns the same scenarios with people and connections multiplied by size.
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

// machine is a machine that differs from that of Scenarios, which has two CPUs.
type machine struct {
	name string
	cpus float64
	size float64 // factor by which people and connections are multiplied, relative to the machine with two CPUs
}

// machines returns machines with as many people per CPU as the machine with two CPUs, so the load without an
// attack is the same. The last one has one CPU, and as many people as the machine with two.
func machines() []machine {
	return []machine{{"1cpu", 1, 0.5}, {"4cpu", 4, 2}, {"8cpu", 8, 4}, {"1cpu-crowded", 1, 1}}
}

// Machines returns Scenarios on other machines. Most of them are Rare.
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

// shares returns the sites of a backend with the given shares, named a, b, c and so on.
func shares(all ...float64) (sites []limiter.SiteInfo) {
	for i, share := range all {
		sites = append(sites, limiter.SiteInfo{Name: siteName(i), Share: share})
	}
	return sites
}

func siteName(i int) string { return "abcdefgh"[i : i+1] }

// of makes clients request the i-th site.
func of(i int, cs []*Client) []*Client {
	return each(cs, func(c *Client) { c.Host = siteName(i) + ".test" })
}

// called makes clients belong to another kind.
func called(kind string, cs []*Client) []*Client {
	return each(cs, func(c *Client) { c.Kind = kind })
}

// apart moves clients to other addresses.
func apart(by uint32, cs []*Client) []*Client {
	return each(cs, func(c *Client) { c.Address += by })
}

// posing returns a crawl that looks like people. It has n addresses, with browsers that send cookies back and
// load the parts of their pages. Each page takes cost CPU-seconds.
func posing(n int, think, cost float64) []*Client {
	return browsing(asking(flatCrawlers(n, 1, think), []Page{{Path: "/page", CPU: cost}}))
}

// saturating returns clients that always have a request in progress, for pages of cost CPU-seconds.
func saturating(site, n int, cost float64) []*Client {
	cs := called(siteName(site), of(site, apart(uint32(site)<<24, posing(n, 0, cost)))) //nolint:gosec // few
	return each(cs, func(c *Client) { c.From, c.Timeout = 0, 1000 })
}
