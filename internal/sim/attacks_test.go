package sim

import (
	"slices"
	"testing"
)

// TestRowsAreFound looks whether each bar and reference is about a scenario that
// there is, and whether no two scenarios have one name.
func TestRowsAreFound(t *testing.T) {
	rows := map[string]bool{}
	for _, s := range Attacks() {
		if rows[s.Name] {
			t.Errorf("%s is there twice", s.Name)
		}
		rows[s.Name] = true
		judged := false
		for _, d := range s.Demands {
			rows[s.Name+" "+d.Kind] = true
			judged = judged || d.Good > 0 || d.P95 > 0 || d.Failed >= 0
		}
		if judged == s.Rare {
			t.Errorf("%s: judged %v, rare %v", s.Name, judged, s.Rare)
		}
	}
	for row := range bars() {
		if !rows[row] {
			t.Errorf("nobody plays %s", row)
		}
	}
	for i, all := range [][]Scenario{Scenarios(), Machines()} {
		for _, s := range all {
			if slices.ContainsFunc(s.Demands, func(d Demand) bool { return d.P95 == 0 }) {
				t.Errorf("table %d, %s: no reference", i, s.Name)
			}
		}
	}
}
