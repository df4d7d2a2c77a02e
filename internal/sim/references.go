package sim

// reference is what the gate got for a kind of clients in a scenario before it was
// a ladder: the median over five seeds of their p95 in milliseconds, on two CPUs
// and then on each of the machines.
type reference struct {
	scenario, kind string
	p95            [5]float64
}

// limit has a scenario demand that its clients get what they got before, but for a
// tenth. The machine is 0 for the one with two CPUs, or 1 and more of machines.
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
