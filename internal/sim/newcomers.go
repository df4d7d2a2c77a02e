package sim

import "fmt"

// newcomers are so many people, each with an address of their own, who come
// evenly between two times and ask for one page, once.
func newcomers(n int, from, to float64, pages []Page) (cs []*Client) {
	for i := range n {
		begin := from + (to-from)*float64(i)/float64(n)
		cs = append(cs, &Client{
			Kind: "new", Address: 0x60000007 + uint32(i)*0x10000, Agent: browser(i), Browser: true,
			Pages: pages, Timeout: 30, Rate: 1, From: begin, To: begin + 1e-6,
		})
	}
	return cs
}

// fewNew and manyNew come while an attack is on.
func fewNew(pages []Page) []*Client  { return newcomers(100, Attack+20, Attack+170, pages) }
func manyNew(pages []Page) []*Client { return newcomers(150, Attack+20, Attack+170, pages) }

// newcomersBeside are newcomers of a site of light pages, beside attacks.
func newcomersBeside() (all []Scenario) {
	for _, x := range []struct {
		name   string
		others func() []*Client
	}{
		{"none", func() []*Client { return nil }},
		{"crawl1", func() []*Client { return lone(20) }},
		{"oneshot30heavy", func() []*Client { return flood(30, true, heavy("/heavy")) }},
		{"oneshot30heavy-samepath", func() []*Client { return flood(30, true, heavy("/page")) }},
		{"lightshot50", func() []*Client { return flood(50, true, light()) }},
		{"lightshot100", func() []*Client { return flood(100, true, light()) }},
		{"lightshot200", func() []*Client { return flood(200, true, light()) }},
		{"dist120-samepath", func() []*Client { return dist(120, "/page") }},
		{"lone-samepath", func() []*Client { return crawlers(1, 20, 0x20000001, 0, robot, "/page") }},
		{"lone-samepath-2conn", func() []*Client { return crawlers(1, 2, 0x20000001, 0, robot, "/page") }},
	} {
		all = append(all, siege("new+"+x.name, site{}, func() []*Client {
			return join(people(20), manyNew(light()), x.others())
		}, "new", "human"))
	}
	return all
}

// strangersOfFlatSites are newcomers of a site whose pages all cost the same,
// beside a crawler that has a new address for each request.
func strangersOfFlatSites() (all []Scenario) {
	add := func(name string, others func() []*Client) {
		all = append(all, siege(name, alike(), func() []*Client {
			return join(thinking(people(20)), fewNew(flat()), others())
		}, "new", "human"))
	}
	for _, rate := range []float64{5, 10, 13, 15, 20, 30} {
		add(fmt.Sprintf("res-flat-%g/s", rate), func() []*Client { return flood(rate, true, flat()) })
	}
	for _, rate := range []float64{1, 3, 5, 10} {
		add(fmt.Sprintf("res-heavy400-flatsite-%g/s", rate), func() []*Client { return flood(rate, true, heavy("/heavy")) })
	}
	add("newflat+lone4", func() []*Client { return lone(4) })
	add("newflat+none", func() []*Client { return nil })
	return all
}
