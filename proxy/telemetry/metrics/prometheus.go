package metrics

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"tempomat/proxy/telemetry"
)

// mostAtOnce is how many may ask for all numbers at the same time; others get a 503.
const mostAtOnce = 4

// Handler answers Prometheus at /metrics: the table, the durations, and what Go and the
// kernel tell of the process. state is called for each answer, concurrently.
func Handler(state func() *State, d *Durations) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(state), d.took.seconds, d.waited.seconds, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: mostAtOnce, EnableOpenMetrics: true,
		ErrorHandling: promhttp.ContinueOnError, Registry: registry, // which counts what is missing
	}))
	return mux
}

// collector exports the table to Prometheus.
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

// Durations are histograms of how long requests take and wait, by group, with classic and native
// buckets. It implements telemetry.Recorder. Its methods may be called concurrently.
type Durations struct{ took, waited durations }

// durations is a histogram for each group.
type durations struct {
	seconds *prometheus.HistogramVec
	groups  [telemetry.Groups]prometheus.ExemplarObserver
	shown   [telemetry.Groups]atomic.Int64 // second of the latest example
}

// NewDurations makes Durations of no requests.
func NewDurations() *Durations {
	d := new(Durations)
	d.took.begin("request_duration_seconds",
		"Seconds from the end of a request's head to the end of its answer, of those that went to the backend and whose client stayed, by group.")
	d.waited.begin("wait_seconds", "Seconds that requests were delayed, by group; of those that the limiter refused, how long they had waited. "+
		"Those that were not delayed are not in it.")
	return d
}

func (d *durations) begin(name, help string) {
	d.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: Prefix + name, Help: help,
		Buckets:                     []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300},
		NativeHistogramBucketFactor: 1.1, NativeHistogramZeroThreshold: 0x1p-20, // a microsecond
	}, []string{"group"})
	for g := range d.groups {
		d.groups[g] = d.seconds.WithLabelValues(telemetry.Group(g).String()).(prometheus.ExemplarObserver) //nolint:forcetypeassert // the library says so
	}
}

// Note implements telemetry.Recorder. A request with an id is an example, one in a second.
func (d *Durations) Note(now time.Time, r *telemetry.Record) {
	if took, saw := r.Took(now); saw {
		d.took.note(now, r, took)
	}
	if waited := r.Waited(); waited > 0 {
		d.waited.note(now, r, waited)
	}
}

func (d *durations) note(now time.Time, r *telemetry.Record, took time.Duration) {
	seconds, shown := max(0, took).Seconds(), &d.shown[r.Group]
	var example prometheus.Labels // nil: none
	if s := now.Unix(); r.ID != "" && shown.Load() != s && shown.Swap(s) != s {
		example = prometheus.Labels{"request_id": r.ID}
	}
	d.groups[r.Group].ObserveWithExemplar(seconds, example)
}
