package sim

import "slices"

// bar is what a gate got for a kind of clients when its policy was found by
// simulation, an average over three seeds; or what the one before it got, where
// that was more.
type bar struct {
	scenario, kind string
	good           float64 // percent of requests answered within a second
	p95            float64 // milliseconds; 0: none
	failed         float64 // percent
}

// demand is what is asked of the gate: a tenth less at most. Where nearly
// everybody was served, nearly everybody must be.
func (b bar) demand() Demand {
	missing := min(0.1*b.good, 2+100-b.good)
	return Demand{Kind: b.kind, Good: (b.good - missing) / 100, P95: 1.1 * b.p95, Failed: (1.1*b.failed + 2) / 100}
}

// bars are demands by scenario and kind.
func bars() map[string]Demand {
	all := map[string]Demand{}
	for _, b := range slices.Concat(barsOfCosts(), barsOfCrowds()) {
		all[b.scenario+" "+b.kind] = b.demand()
	}
	return all
}

// barsOfCosts are those where it matters what single requests cost, and wait for.
func barsOfCosts() []bar {
	return []bar{
		// Requests that cost more than is guessed.
		{"misguess-control", "human", 100, 57, 0},
		{"misguess8addr", "human", 96, 837, 2},
		{"train3s-8addr", "human", 96, 876, 0},
		{"longjobs-light", "human", 100, 82, 0},
		{"longjobs-flat", "human", 98, 742, 0},
		{"lj-flat-10s-12conn", "human", 100, 465, 0},
		{"lj-flat-30s-20conn", "human", 98, 742, 0},
		{"exports60s-3conn-pages300ms", "new", 100, 800, 0},
		{"exports60s-20conn-pages300ms", "new", 100, 900, 0},
		{"exports60s-3conn-pages600ms", "new", 0, 1900, 0},
		{"exports60s-3conn-pages600ms", "human", 0, 1950, 0},
		{"exports60s-20conn-pages600ms", "new", 0, 2000, 0},
		{"exports60s-3conn-pages1000ms", "new", 0, 3400, 0},
		{"exports60s-3conn-pages100ms-1cpu", "new", 98, 450, 0},
		{"exports60s-20conn-pages300ms-1cpu", "new", 0, 1600, 0},
		// Pages that are neither light nor heavy, beside a crawler's.
		{"plain-people120ms-crawl2s", "human", 100, 290, 0},
		{"plain-people150ms-crawl2s", "human", 100, 378, 0},
		{"plain-people300ms-crawl2s", "human", 98, 853, 0},
		// Requests that wait at the backend.
		{"poll-20-people", "human", 100, 29, 0},
		{"poll-20-people", "poll", 0, 0, 18},
		{"poll-40-people", "poll", 0, 0, 61},
		{"pollcrawl-10", "human", 100, 0, 0},
		{"pollcrawl-10", "poll", 0, 0, 0},
		{"pollcrawl-20", "human", 100, 56, 0},
		{"pollcrawl-20", "poll", 0, 0, 29},
		{"polls120s-8conn-pages800ms", "new", 0, 1150, 0},
		{"polls120s-8conn-pages1500ms", "new", 0, 2300, 0},
		{"halves-20conn-2.5s-pages20ms", "new", 100, 270, 0},
		{"halves-20conn-2.5s-pages20ms", "human", 100, 280, 0},
		{"halves-20conn-2.5s-pages100ms", "new", 0, 1450, 0}, // 1400 while what slept was charged for that
		{"halves-20conn-10s-pages20ms", "new", 100, 300, 0},
		{"halves-20conn-10s-pages20ms", "human", 100, 290, 0},
		{"halves-20conn-10s-pages100ms", "new", 0, 1750, 0},
		{"halves-20conn-10s-pages100ms", "human", 0, 1700, 0},
		{"dbcrawl-20-300ms-30c-2s", "human", 99, 713, 0},
	}
}

// barsOfCrowds are those where it matters how many clients there are, and who looks like whom.
func barsOfCrowds() []bar {
	return []bar{
		// Many sessions of one address, or addresses of a User-Agent.
		{"sess-16-heavy400-flat", "new", 100, 485, 0},
		{"sess-16-heavy400-flat", "human", 100, 379, 0},
		{"sess-64-heavy400-flat", "new", 100, 467, 0},
		{"T4-sess16x2-new@60", "new", 100, 404, 0},
		{"S3-addr-nocookie-ua-120x1", "new", 100, 483, 0},
		// Newcomers among crawlers that look like them.
		{"res-flat-10/s", "new", 89, 5400, 1},
		{"res-flat-10/s", "human", 100, 0, 0},
		{"res-flat-13/s", "new", 79, 0, 17},
		{"res-flat-13/s", "human", 100, 0, 0},
		{"res-flat-20/s", "new", 59, 0, 41},
		{"res-flat-20/s", "human", 100, 0, 0},
		{"new+lightshot100", "new", 91, 0, 8},
		{"new+lightshot100", "human", 100, 0, 0},
		{"new+oneshot30heavy-samepath", "new", 13, 0, 87},
		{"new+oneshot30heavy-samepath", "human", 100, 0, 0},
		{"new+dist120-samepath", "new", 96, 928, 0},
		{"new+dist120-samepath", "human", 100, 0, 0},
		// Crawlers inside an office.
		{"natflat20+crawler-inside-cookiesfalse", "nat", 100, 422, 0},
		{"natflat20+crawler-inside-cookiesfalse", "human", 100, 0, 0},
		{"natflat20+flatcrawler-inside-cookiesfalse", "nat", 75, 6400, 1},
		{"natflat20+flatcrawler-inside-cookiesfalse", "human", 100, 0, 0},
		// Flash crowds.
		{"flash500-60ms", "new", 63, 14600, 0},
		{"flash500-60ms", "human", 100, 0, 0},
		{"flash500-60ms+crawl", "new", 62, 15000, 0},
		{"flash500-60ms+crawl", "human", 100, 0, 0},
		{"flash100-150ms+crawl", "new", 98, 779, 0},
		{"flash100-150ms+crawl", "human", 100, 0, 0},
		// Crawlers that look like people, and robots that do no harm.
		{"flat-20addr-browser", "human", 74, 2500, 0},
		{"flat-120addr-browser", "human", 98, 513, 0},
		{"innocent-dist120", "hook", 87, 1400, 0},
	}
}
