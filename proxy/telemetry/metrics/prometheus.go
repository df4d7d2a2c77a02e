package metrics

import (
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"tempomat/proxy/telemetry"
)

// mostAtOnce is how many requests for metrics are answered at the same time. Further requests get a 503.
const mostAtOnce = 4

// Handler answers Prometheus at /metrics with the table, the durations, and metrics of Go and of the
// process. It calls state for each answer, concurrently.
func Handler(state func() *State, d *Durations) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(state), d.took.seconds, d.waited.seconds, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: mostAtOnce,
		ErrorHandling:       promhttp.ContinueOnError, Registry: registry, // counts failed answers
	}))
	return mux
}

// collector exports the table to Prometheus.
type collector struct {
	state func() *State
	table []Metric
	desc  []*prometheus.Desc // description of each line of the table
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

// utf8Text replaces bytes that aren't UTF-8. Names of files may contain such bytes, but Prometheus rejects them.
func utf8Text(label string) string { return strings.ToValidUTF8(label, "\ufffd") }

// Durations are histograms of how long requests take and wait, by group, with classic and native buckets. It
// implements telemetry.Recorder. Its methods may be called concurrently.
type Durations struct{ took, waited durations }

// durations is a histogram for each group.
type durations struct {
	seconds *prometheus.HistogramVec
	groups  [telemetry.Groups]prometheus.Observer
}

// NewDurations makes empty Durations.
func NewDurations() *Durations {
	d := new(Durations)
	d.took.begin("request_duration_seconds",
		"Seconds from the end of a request's headers to the end of its response, by group. Includes only requests that the backend served and whose client stayed connected.")
	d.waited.begin("wait_seconds", "Seconds that requests were delayed, by group; for rejected requests, the time until the rejection. "+
		"Requests that weren't delayed are not included.")
	return d
}

func (d *durations) begin(name, help string) {
	d.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: Prefix + name, Help: help,
		Buckets:                     []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300},
		NativeHistogramBucketFactor: 1.1, NativeHistogramZeroThreshold: 0x1p-20, // about a microsecond
	}, []string{"group"})
	for g := range d.groups {
		d.groups[g] = d.seconds.WithLabelValues(telemetry.Group(g).String())
	}
}

// Note implements telemetry.Recorder.
func (d *Durations) Note(now time.Time, r *telemetry.Record) {
	if took, saw := r.Took(now); saw {
		d.took.groups[r.Group].Observe(max(0, took).Seconds())
	}
	if waited := r.Waited(); waited > 0 {
		d.waited.groups[r.Group].Observe(waited.Seconds())
	}
}
