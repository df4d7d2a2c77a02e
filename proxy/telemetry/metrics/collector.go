package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// collector tells Prometheus the table.
type collector struct {
	state func() *State
	table []Metric
	desc  []*prometheus.Desc // of each line of the table
}

func newCollector(state func() *State) *collector {
	c := &collector{state: state}
	for _, m := range Table() {
		if m.Name == "" {
			continue
		}
		c.table = append(c.table, m)
		c.desc = append(c.desc, prometheus.NewDesc(Prefix+m.Name, m.Help, m.Labels, nil))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.desc {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := c.state()
	for i, m := range c.table {
		kind := prometheus.GaugeValue
		if m.Kind == Counter {
			kind = prometheus.CounterValue
		}
		for _, n := range m.numbers(s, utf8Text) {
			to <- prometheus.MustNewConstMetric(c.desc[i], kind, n.x, n.labels...)
		}
	}
}

// utf8Text is a label as Prometheus takes it: the names of files may be anything.
func utf8Text(label string) string { return strings.ToValidUTF8(label, "\ufffd") }
