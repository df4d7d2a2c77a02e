package metrics

import "github.com/prometheus/client_golang/prometheus"

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
		m.get(s, func(x float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(c.desc[i], kind, x, labels...)
		})
	}
}
