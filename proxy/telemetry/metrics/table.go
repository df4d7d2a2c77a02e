// Package metrics shows what the proxy counts: one [Table] of all numbers, with their names and
// meanings, and its readers. A new number is a line of the table, and is then in the status of
// the admin API, in Graphite and in Prometheus.
//
//	table.go       the kinds of lines, the table as a whole, and the table for the status
//	requests.go    its lines: requests that are over, and who waits
//	gate.go        the gate, and the sites of a shared host
//	resources.go   buffers, connections, reloads, TLS, those with whom accounts are shared
//	prometheus.go  the table for Prometheus, and how long requests take
//	graphite.go    the table for Graphite, and the keys that wait in the log
//
// Labels are groups, outcomes, reasons, and what the configuration names. They are never
// addresses, URLs or User-Agents: there are as many series with a million clients as with
// one.
package metrics

import (
	"slices"
	"strings"

	"tempomat/classify/newcomer"
	"tempomat/cpuaccount"
	"tempomat/limiter"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/connlimit"
	"tempomat/proxy/host"
	"tempomat/proxy/spool"
	"tempomat/proxy/telemetry"
)

// State is what there is at a moment. Totals are since the start.
type State struct {
	Release      string
	Mode         string // fair, observe, cap, cooperative
	Shadow       bool   // no request is delayed
	CPUs         float64
	Totals       *telemetry.Totals
	Costs        cpuaccount.Sums
	Priorities   Priorities
	Pressure     float64 // negative: unknown
	Waiting      telemetry.Waiting
	Redirects    newcomer.Counts
	Gate         limiter.GateState
	Held, Keys   int
	Buffer       spool.Stats
	Connections  connlimit.Stats
	Reloads      uint64
	Rejected     uint64
	ReloadOK     bool   // the last reload was not rejected, or there was none
	LostLines    uint64 // of the log, which could not be written
	Sharing      Sharing
	ConnStats    ConnStats
	Certificates []api.Certificate
	Strict       *Strict // nil: no request limit is strict
}

// Priorities is how the backend's processes step down.
type Priorities struct {
	On bool // they do
	host.PriorityCounts
}

// Strict is how counting for strict request limits goes.
type Strict struct{ Checks, Failures uint64 }

// Sharing is how sharing accounts goes.
type Sharing struct {
	Kind string // as configured: none, smockron, …
	limiter.SharingStatus
	OtherSecret bool // an instance has another coordination.secret
	Drift       int  // differences between the instances, in what they should have in common
}

// ConnStats is how connections have begun, before their first request: how many of each
// result. Without such listeners they are nil.
type ConnStats struct{ Handshakes, Proxied map[string]uint64 }

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
	// Name is Prometheus's name without the prefix; empty: it isn't there, because other lines
	// have its parts.
	Name string
	// Series is Graphite's name, followed by the labels' values, and the status's name, which
	// only has counts without labels; empty: it is in neither.
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

// numbers are a line's numbers, with labels in a form that can be written: Prometheus and
// Graphite don't accept every name of a file or a site. If labels then become the same, counts
// are summed up; of gauges the least stays, because that is when the first certificate expires,
// or 0 if one of them is not in force.
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

// Counters are the table's counts without labels by name, as in the admin API's status, and the
// number of keys.
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
