// Package metrics exports the proxy's numbers. One [Table] has all of them with their names and
// meanings. A number that is added to the table appears in Prometheus, in Graphite and in the status of
// the admin API.
//
//	table.go       the kinds of lines, the table as a whole, and the table for the status
//	requests.go    lines about finished and waiting requests
//	gate.go        lines about the gate, and about the sites of a shared host
//	resources.go   lines about buffers, connections, reloads, TLS, and sharing with other instances
//	prometheus.go  the table for Prometheus, and how long requests take
//	graphite.go    the table for Graphite
//
// Labels are groups, outcomes, reasons and names from the configuration, never addresses, URLs or User-Agents.
// The number of series therefore doesn't depend on the number of clients.
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

// State holds the numbers of one moment. Totals count since the start.
type State struct {
	Release      string
	Mode         string // fair, observe, cap, cooperative
	Shadow       bool   // whether requests are only judged, and never delayed
	CPUs         float64
	Totals       *telemetry.Totals
	Costs        cpuaccount.Sums
	Priorities   Priorities
	Pressure     float64 // fraction of the time in which processes waited for a CPU; negative: unknown
	Waiting      telemetry.Waiting
	Redirects    newcomer.Counts
	Gate         limiter.GateState
	Held, Keys   int
	Buffer       spool.Stats
	Connections  connlimit.Stats
	Reloads      uint64
	Rejected     uint64
	ReloadOK     bool   // whether the last reload succeeded, or there was none
	LostLines    uint64 // lines of the log that couldn't be written
	Sharing      Sharing
	ConnStats    ConnStats
	Certificates []api.Certificate
	Strict       *Strict // calls to Redis; nil without strict limits
}

// Priorities says how the priorities of the backend's processes change.
type Priorities struct {
	On bool // whether priorities are lowered
	host.PriorityCounts
}

// Strict counts the calls to Redis for strict limits.
type Strict struct{ Checks, Failures uint64 }

// Sharing is the state of sharing with other instances.
type Sharing struct {
	Kind string // coordination.kind: none, smockron, …
	limiter.SharingStatus
	OtherSecret bool // whether an instance has a different coordination.secret
	Drift       int  // number of settings in which the instances differ
}

// ConnStats counts TLS handshakes and PROXY headers by result. A map is nil if no listener uses them.
type ConnStats struct{ Handshakes, Proxied map[string]uint64 }

// Kind is the type of a metric.
type Kind uint8

// The types of metrics.
const (
	Counter Kind = iota // a total since the start
	Gauge               // a current value
)

func (k Kind) String() string {
	if k == Counter {
		return "counter"
	}
	return "gauge"
}

// Metric is a line of the table: a number, or one for each value of its labels.
type Metric struct {
	// Name is the name in Prometheus without the prefix. It is empty for sums, because Prometheus has
	// their parts.
	Name string
	// Series is the name in Graphite, where the labels' values follow it, and in the status, which has only
	// counts without labels. If Series is empty, the line is in neither.
	Series string
	Kind   Kind
	Help   string // description in one sentence
	Labels []string
	Whole  bool // whether the numbers are integers

	get func(s *State, tell tell)
}

// tell receives a number and the values of its labels.
type tell func(x float64, labels ...string)

// number is one value of a line.
type number struct {
	labels []string
	x      float64
}

// numbers returns a metric's numbers. written changes labels into a form that Prometheus or Graphite accepts,
// because names of files and sites may contain any character. If two labels become equal, counters are added
// up, and the lower gauge is used, which is that of the certificate that expires first or isn't valid.
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

// Prefix is the beginning of each name in Prometheus.
const Prefix = "tempomat_"

// Table returns all lines, in the order of the manual.
func Table() []Metric {
	return slices.Concat(requests(), limits(), waiting(), gate(), sites(), resources(), secure(), sharing())
}

// count makes a line that counts since the start.
func count(name, series, help string, get func(*State) uint64) Metric {
	return Metric{Name: name, Series: series, Kind: Counter, Help: help, Whole: true, get: func(s *State, tell tell) { tell(float64(get(s))) }}
}

// gauge makes a line with a current value.
func gauge(name, series, help string, get func(*State) float64) Metric {
	return Metric{Name: name, Series: series, Kind: Gauge, Help: help, get: func(s *State, tell tell) { tell(get(s)) }}
}

// level makes a gauge with an integer value.
func level(name, series, help string, get func(*State) int) Metric {
	return gauge(name, series, help, func(s *State) float64 { return float64(get(s)) })
}

// by adds labels and their numbers to a line.
func by(m Metric, get func(s *State, tell tell), labels ...string) Metric {
	m.Labels, m.get = labels, get
	return m
}

// counts and gauges make lines with labels.
func counts(name, series, help string, get func(s *State, tell tell), labels ...string) Metric {
	return by(Metric{Name: name, Series: series, Kind: Counter, Help: help, Whole: true}, get, labels...)
}

func gauges(name, series, help string, get func(s *State, tell tell), labels ...string) Metric {
	return by(Metric{Name: name, Series: series, Kind: Gauge, Help: help}, get, labels...)
}

// truth returns 1 for true and 0 for false.
func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Counters returns the counters of the admin API's status by name: the table's counts without labels,
// and the number of keys.
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

// Series returns all numbers of the table by their names in Graphite, without the prefix.
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

// camel turns a label's value into a part of a series' name: "client gone" becomes clientGone, and characters
// with a meaning in Graphite become _.
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
