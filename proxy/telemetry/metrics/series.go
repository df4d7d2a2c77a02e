package metrics

import "strings"

// Counters are the table's counts without labels by name, as the admin API's status has
// them, and how many keys there are.
func Counters(s *State) map[string]uint64 {
	all := make(map[string]uint64)
	for _, m := range Table() {
		if m.Series == "" || len(m.Labels) > 0 || !m.Whole && m.Series != "keys" {
			continue
		}
		m.get(s, func(x float64, _ ...string) { all[m.Series] = uint64(x) })
	}
	return all
}

// Series are all of the table's numbers by Graphite's names, without what is before them.
func Series(s *State) map[string]float64 {
	all := make(map[string]float64)
	for _, m := range Table() {
		if m.Series == "" {
			continue
		}
		for _, n := range m.numbers(s, camel) {
			all[strings.Join(append([]string{m.Series}, n.labels...), ".")] = n.x
		}
	}
	return all
}

// camel is a label's value as a part of a series' name: "client gone" is clientGone, and
// what has a meaning there is replaced.
func camel(label string) string {
	var b strings.Builder
	upper := false
	for _, r := range label {
		switch {
		case r == ' ':
			upper = true
			continue
		case r == '-' || r == '_' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z':
		case 'a' <= r && r <= 'z':
			if upper {
				r += 'A' - 'a'
			}
		default:
			r = '_'
		}
		upper = false
		b.WriteRune(r)
	}
	return b.String()
}
