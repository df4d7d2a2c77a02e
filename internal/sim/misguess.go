package sim

import "fmt"

// search is a page. Its URL has a parameter of the round, or none with a negative
// one.
func search(round int, cost float64) []Page {
	query := "q="
	if round >= 0 {
		query = fmt.Sprintf("x=%c%c&q=", 'a'+round/26, 'a'+round%26)
	}
	return []Page{{Path: "/search", Query: query, CPU: cost}}
}

// training is a burst of cheap requests from an address, and dear a burst of
// dear ones.
func training(address uint32, at float64, pages []Page) *Client {
	return &Client{
		Kind: "train", Address: address, Agent: browser(0), Pages: pages,
		Think: 0.01, Timeout: 30, From: at, To: at + 0.5,
	}
}

func dear(address uint32, parallel int, from, to float64, pages []Page) *Client {
	return &Client{
		Kind: "attack", Address: address, Agent: browser(0), Parallel: parallel, Pages: pages,
		Timeout: 300, From: from, To: to,
	}
}

// misguessed are attackers that teach the proxy that a parameter is cheap, and
// then ask for what is dear, again and again with another parameter.
func misguessed() (all []Scenario) {
	for _, x := range []struct {
		name                        string
		rounds, addresses, parallel int
		each, cost, lasting         float64 // seconds
		trained                     bool
	}{
		{name: "misguess1addr", rounds: 20, addresses: 1, parallel: 20, each: 8, cost: 8, lasting: 1, trained: true},
		{name: "misguess8addr", rounds: 20, addresses: 8, parallel: 4, each: 8, cost: 8, lasting: 1, trained: true},
		{name: "misguess-control", rounds: 20, addresses: 1, parallel: 20, each: 8, cost: 8, lasting: 1},
		{name: "train3s-1addr", rounds: 60, addresses: 1, parallel: 16, each: 3, cost: 3, lasting: 0.06, trained: true},
		{name: "train3s-8addr", rounds: 60, addresses: 8, parallel: 2, each: 3, cost: 3, lasting: 0.06, trained: true},
		{name: "untrained3s-1addr", rounds: 60, addresses: 1, parallel: 16, each: 3, cost: 3, lasting: 0.06},
		{name: "untrained3s-8addr", rounds: 60, addresses: 8, parallel: 2, each: 3, cost: 3, lasting: 0.06},
	} {
		all = append(all, siege(x.name, site{}, func() []*Client {
			cs := people(20)
			for i := range x.rounds {
				at, round := Attack+float64(i)*x.each, -1
				if x.trained {
					round = i
				}
				for a := range x.addresses {
					address := 0x20000001 + uint32(a)*strewn
					if x.trained {
						cs = append(cs, training(address, at, search(round, 0.002)))
					}
					cs = append(cs, dear(address, x.parallel, at+1, at+1+x.lasting, search(round, x.cost)))
				}
			}
			return cs
		}, "human"))
	}
	return all
}

// mixtures are pages that are cheap mostly and dear now and then, and nothing
// tells which.
func mixtures() (all []Scenario) {
	for _, cheap := range []float64{0.9, 0.95, 0.98} {
		for _, n := range []int{1, 8} {
			all = append(all, siege(fmt.Sprintf("mix-%g-%daddr", cheap, n), site{}, func() []*Client {
				cs := crawlers(n, 20/n+3, 0x20000001, strewn, browser, "/s")
				for _, c := range cs {
					c.Pages = []Page{{Path: "/s", Query: "q=", Part: cheap, CPU: 0.001}, {Path: "/s", Query: "q=", CPU: 2}}
					c.Timeout = 1000
				}
				return join(people(20), cs)
			}, "human"))
		}
	}
	return all
}
