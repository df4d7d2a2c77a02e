package sim

import "slices"

// Stepping are crawls before a backend whose workers step down in priority as their
// requests compute. People get their pages nearly as on the idle site, whose 95th percentile
// is 29 ms, or 222 ms where all pages are alike; beside 120 crawlers that ask no more than
// people do, as without.
func Stepping() (all []Scenario) {
	demands := map[string][]Demand{
		"crawl1":                    {{Kind: "human", Good: 1, P95: 40}},
		"dist120":                   {{Kind: "human", Good: 1, P95: 45}},
		"oneshot-samepath":          {{Kind: "human", Good: 1, P95: 45}},
		"lightflood":                {{Kind: "human", Good: 1, P95: 45}},
		"nat+crawl1":                {{Kind: "human", Good: 1, P95: 45}, {Kind: "nat", Good: 1, P95: 50}},
		"nat+dist120":               {{Kind: "human", Good: 1, P95: 50}, {Kind: "nat", Good: 1, P95: 110}},
		"mixed":                     {{Kind: "human", Good: 1, P95: 55}, {Kind: "nat", Good: 0.99, P95: 140}},
		"flat1":                     {{Kind: "human", Good: 0.99, P95: 280}},
		"flatshot":                  {{Kind: "human", Good: 0.99, P95: 300}},
		"flat120":                   {{Kind: "human", Good: 0.99, P95: 360}},
		"flatnat":                   {{Kind: "human", Good: 0.99, P95: 390}, {Kind: "nat", Good: 0.99, P95: 390}},
		"plain-people150ms-crawl2s": {{Kind: "human", Good: 0.99, P95: 280}},
		"sess-16-heavy400-flat":     {{Kind: "human", Good: 0.99, P95: 300}, {Kind: "new", Good: 0.99, P95: 485}},
	}
	usual := []string{"crawl1", "flat1", "nat+dist120"}
	for _, s := range slices.Concat(Scenarios(), Attacks()) {
		d, has := demands[s.Name]
		if !has {
			continue
		}
		s.Rare = !slices.Contains(usual, s.Name)
		s.Name, s.Demands, s.Steps, s.Waiting = s.Name+"+steps", d, true, 0.94
		all = append(all, s)
	}
	return all
}
