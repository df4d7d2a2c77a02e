package sim

import "fmt"

// crowds are flash crowds: newcomers who all come within ten seconds, to a site
// that few people were at, with a crawler beside them and without.
func crowds() (all []Scenario) {
	for _, cost := range []float64{0.02, 0.06, 0.09, 0.15} {
		for _, n := range []int{500, 100} {
			name := fmt.Sprintf("flash%d-%gms", n, cost*1000)
			crowd := func() []*Client {
				pages := []Page{{Path: "/page", CPU: cost}}
				return join(newcomers(n, Attack+30, Attack+40, pages), asking(people(5), pages))
			}
			all = append(all,
				siege(name, site{}, crowd, "new", "human"),
				siege(name+"+crawl", site{}, func() []*Client { return join(crowd(), lone(20)) }, "new", "human"))
		}
	}
	return all
}
