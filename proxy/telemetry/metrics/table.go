package metrics

import "slices"

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
