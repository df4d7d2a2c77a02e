package metrics

import (
	"slices"
	"strings"
)

// Kind is how a number changes.
type Kind uint8

// The kinds.
const (
	Counter Kind = iota // since the start; it only grows
	Gauge               // of this moment
)

func (k Kind) String() string {
	if k == Counter {
		return "counter"
	}
	return "gauge"
}

// Metric is a line of the table: a number, or one for each value of its labels.
type Metric struct {
	// Name is that of Prometheus without the prefix; empty: it is not there, as others tell
	// it by parts.
	Name string
	// Series is Graphite's name, to which the values of the labels are added, and that of
	// the status, which has counts without labels only; empty: it is in neither.
	Series string
	Kind   Kind
	Help   string // one sentence
	Labels []string
	Whole  bool // it is a count of something

	get func(s *State, tell tell)
}

// tell is called for each value of the labels.
type tell func(x float64, labels ...string)

// number is one of a line's.
type number struct {
	labels []string
	x      float64
}

// numbers are a line's, with labels as they can be written: Prometheus and Graphite have no place
// for each name that a file or a site may have. Of those whose labels are the same then, counts
// are summed up; of gauges the least is left, as that is when the first certificate expires, and
// 0 if one of them is not in force.
func (m *Metric) numbers(s *State, written func(label string) string) (all []number) {
	at := make(map[string]int)
	m.get(s, func(x float64, labels ...string) {
		n := number{make([]string, len(labels)), x}
		for i, l := range labels {
			n.labels[i] = written(l)
		}
		key := strings.Join(n.labels, "\x00")
		i, twice := at[key]
		switch {
		case !twice:
			at[key] = len(all)
			all = append(all, n)
		case m.Kind == Counter:
			all[i].x += x
		default:
			all[i].x = min(all[i].x, x)
		}
	})
	return all
}

// Prefix is before each name of Prometheus.
const Prefix = "tempomat_"

// Table is all lines, in the order of the manual.
func Table() []Metric {
	return slices.Concat(requests(), limits(), waiting(), gate(), sites(), resources(), secure(), sharing())
}

// count is a line that counts since the start.
func count(name, series, help string, get func(*State) uint64) Metric {
	return Metric{Name: name, Series: series, Kind: Counter, Help: help, Whole: true, get: func(s *State, tell tell) { tell(float64(get(s))) }}
}

// gauge is a line of this moment.
func gauge(name, series, help string, get func(*State) float64) Metric {
	return Metric{Name: name, Series: series, Kind: Gauge, Help: help, get: func(s *State, tell tell) { tell(get(s)) }}
}

// level is a gauge of whole numbers.
func level(name, series, help string, get func(*State) int) Metric {
	return gauge(name, series, help, func(s *State) float64 { return float64(get(s)) })
}

// by makes a line of one with labels.
func by(m Metric, get func(s *State, tell tell), labels ...string) Metric {
	m.Labels, m.get = labels, get
	return m
}

// counts and gauges are lines with labels.
func counts(name, series, help string, get func(s *State, tell tell), labels ...string) Metric {
	return by(Metric{Name: name, Series: series, Kind: Counter, Help: help, Whole: true}, get, labels...)
}

func gauges(name, series, help string, get func(s *State, tell tell), labels ...string) Metric {
	return by(Metric{Name: name, Series: series, Kind: Gauge, Help: help}, get, labels...)
}

// truth is 1 or 0.
func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
