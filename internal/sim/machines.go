package sim

import "slices"

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
