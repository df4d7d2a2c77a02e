package sim

import "slices"

// bar is the result that the gate achieved for a kind of client when its policy was found by simulation,
// averaged over three seeds. If the gate's predecessor achieved more, the bar is the predecessor's result.
type bar struct {
	scenario, kind string
	good           float64 // percent of requests answered within a second
	p95            float64 // milliseconds; 0: none
	failed         float64 // percent
}

// demand returns the result that the gate must achieve, which may be about a tenth worse than the bar. If
// almost all requests were served then, almost all must be served now.
func (b bar) demand() Demand {
	missing := min(0.1*b.good, 2+100-b.good)
	return Demand{Kind: b.kind, Good: (b.good - missing) / 100, P95: 1.1 * b.p95, Failed: (1.1*b.failed + 2) / 100}
}

// bars returns the demands by scenario and kind of client.
func bars() map[string]Demand {
	all := map[string]Demand{}
	for _, b := range slices.Concat(barsOfCosts(), barsOfCrowds()) {
		all[b.scenario+" "+b.kind] = b.demand()
	}
	return all
}

// barsOfCosts returns the bars of scenarios in which the costs and waits of single requests matter.
func barsOfCosts() []bar {
	return []bar{
		// Requests that cost more than guessed.
		{"misguess-control", "human", 100, 57, 0},
		{"misguess8addr", "human", 96, 837, 2},
		{"train3s-8addr", "human", 96, 876, 0},
		{"novel1x60-people600ms", "human", 58, 0, 1},
		{"novel8x20-people20ms", "human", 100, 60, 0},
		{"novel120x1-people300ms", "human", 98, 900, 0},
		{"novel8x20-wiki20ms", "new", 100, 65, 0},
		{"novel8x20-wiki20ms", "human", 100, 65, 0},
		{"novel8x20-wiki150ms", "new", 91, 0, 0},
		{"novel8x20-wiki150ms", "human", 96, 0, 0},
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
		// Pages that are neither light nor heavy, and those of a crawler.
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
		{"halves-20conn-2.5s-pages100ms", "new", 0, 1520, 0}, // it was 1400 when sleeping was charged, and 1450 before the room could double
		{"halves-20conn-10s-pages20ms", "new", 100, 300, 0},
		{"halves-20conn-10s-pages20ms", "human", 100, 290, 0},
		{"halves-20conn-10s-pages100ms", "new", 0, 1750, 0},
		{"halves-20conn-10s-pages100ms", "human", 0, 1700, 0},
		{"dbcrawl-20-300ms-30c-2s", "human", 99, 713, 0},
	}
}

// barsOfCrowds returns the bars of scenarios in which the number and the similarity of clients matter.
func barsOfCrowds() []bar {
	return []bar{
		// Many sessions at one address, or addresses with one User-Agent.
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
		{"new+full-queue", "new", 90, 0, 1},
		{"new+lightshot100", "new", 91, 0, 8},
		{"new+lightshot100", "human", 100, 0, 0},
		{"new+oneshot30heavy-samepath", "new", 13, 0, 87},
		{"new+oneshot30heavy-samepath", "human", 100, 0, 0},
		{"new+shot40-parts", "new", 88, 0, 13},
		{"new+shot40-parts", "new's parts", 100, 0, 0},
		{"new+shot40-parts", "human", 100, 0, 0},
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
		{"new+posing120", "new", 91, 0, 1},
		{"new+posing120", "human", 84, 0, 3},
		{"innocent-dist120", "hook", 87, 1400, 0},
	}
}

// reference is the result that the gate achieved for a kind of client in a scenario before the gate had a
// ladder. It is the median over five seeds of the 95th percentile in milliseconds, first on two CPUs and then
// on each of the machines.
type reference struct {
	scenario, kind string
	p95            [5]float64
}

// limit requires that the p95 of a scenario's clients is at most 1.1 times the reference. machine is 0 for the
// machine with two CPUs, or otherwise an index into machines plus one.
func (s *Scenario) limit(machine int) {
	for _, r := range references() {
		for i, d := range s.Demands {
			if r.scenario == s.Name && r.kind == d.Kind {
				s.Demands[i].P95 = 1.1 * r.p95[machine]
			}
		}
	}
}

func references() []reference {
	return []reference{
		// CPUs: 2, 1, 4, 8, and 1 with the people of 2.
		{"idle", "human", [5]float64{29, 41, 29, 29, 53}},
		{"crawl1", "human", [5]float64{55, 75, 44, 39, 96}},
		{"net24", "human", [5]float64{54, 74, 44, 39, 96}},
		{"uachrome", "human", [5]float64{54, 75, 44, 39, 97}},
		{"dist120", "human", [5]float64{55, 74, 44, 39, 93}},
		{"flood", "human", [5]float64{54, 74, 44, 39, 95}},
		{"oneshot", "human", [5]float64{54, 74, 44, 39, 93}},
		{"lightflood", "human", [5]float64{81, 127, 58, 46, 146}},
		{"lightshot", "human", [5]float64{54, 74, 44, 39, 92}},
		{"oneshot-samepath", "human", [5]float64{54, 75, 44, 40, 1078}},
		{"nat", "human", [5]float64{36, 57, 29, 29, 108}},
		{"nat", "nat", [5]float64{36, 60, 29, 29, 117}},
		{"nat+crawl1", "human", [5]float64{75, 106, 60, 50, 142}},
		{"nat+crawl1", "nat", [5]float64{79, 109, 68, 72, 292}},
		{"nat+dist120", "human", [5]float64{69, 98, 55, 45, 144}},
		{"nat+dist120", "nat", [5]float64{102, 120, 112, 552, 324}},
		{"export", "human", [5]float64{30, 60, 29, 29, 74}},
		{"export", "admin", [5]float64{30, 59, 29, 29, 75}},
		{"mixed", "human", [5]float64{83, 132, 60, 47, 194}},
		{"mixed", "nat", [5]float64{133, 179, 148, 677, 768}},
		{"restart", "human", [5]float64{54, 76, 44, 39, 97}},
		{"lone", "attack", [5]float64{1058, 1080, 1039, 1017, 1989}},
		{"flat-idle", "human", [5]float64{223, 321, 218, 218, 429}},
		{"flat1", "human", [5]float64{323, 393, 274, 246, 497}},
		{"flat120", "human", [5]float64{321, 393, 274, 246, 533}},
		{"flat120think", "human", [5]float64{322, 414, 276, 246, 563}},
		{"flatshot", "human", [5]float64{319, 405, 424, 243, 493}},
		{"flatnat", "human", [5]float64{341, 458, 283, 247, 737}},
		{"flatnat", "nat", [5]float64{347, 474, 284, 253, 808}},
	}
}
