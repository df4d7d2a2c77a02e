package sim

// Attacks are scenarios that the regular ones leave out, in families: each has
// one idea, and parameters. Those that have a bar are judged; the rest of a family
// is Rare, and shows where the idea begins and ends.
func Attacks() (all []Scenario) {
	for _, family := range [][]Scenario{
		misguessed(), mixtures(), longJobs(), plainSites(), sessions(), strangersOfFlatSites(), newcomersBeside(),
		morePolls(), crowds(), offices(), insideOffices(), likePeople(), innocents(), dearPeople(),
	} {
		all = append(all, family...)
	}
	reached := bars()
	for i := range all {
		s := &all[i]
		s.Rare = s.Demands[0].Good == 0
		for k := range s.Demands {
			if d, ok := reached[s.Name+" "+s.Demands[k].Kind]; ok {
				s.Demands[k], s.Rare = d, false
			}
		}
	}
	return all
}

// siege is a scenario that reports on some kinds of clients.
func siege(name string, of site, clients func() []*Client, kinds ...string) Scenario {
	s := Scenario{Name: name, CPUs: 2, Workers: 16, Waiting: 0.95, site: of, end: Attack + 180, clients: clients}
	for _, k := range kinds {
		s.Demands = append(s.Demands, Demand{Kind: k, Failed: -1})
	}
	return s
}

// alike is a site whose pages all cost the same: standing is earned by cookies
// and parts.
func alike() site { return site{cookies: true, parts: true} }

// dearPages are a crawler's that cost so many seconds, each with a URL of its own.
func dearPages(parallel int, path string, cost float64) []*Client {
	cs := crawlers(1, parallel, 0x20000001, 0, robot, path)
	cs[0].Pages, cs[0].Timeout = []Page{{Path: path, Query: "n=", CPU: cost}}, 1000
	return cs
}

// asking has clients ask for other pages.
func asking(cs []*Client, pages []Page) []*Client {
	for _, c := range cs {
		c.Pages = pages
	}
	return cs
}

// browsing has clients load the parts of their pages and bring cookies back.
func browsing(cs []*Client) []*Client {
	for _, c := range cs {
		c.Browser = true
	}
	return cs
}
