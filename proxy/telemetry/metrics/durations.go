package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tempomat/proxy/telemetry"
)

// Durations is how long requests take and wait, by group, as histograms. It implements
// telemetry.Counter and prometheus.Collector, and telemetry.Recorder for the examples. Its
// methods may be called concurrently.
type Durations struct {
	counts       *telemetry.Counts
	took, waited durations
}

// durations is a histogram for each group.
type durations struct {
	desc   *prometheus.Desc
	groups [telemetry.Groups]*histogram
}

// NewDurations makes Durations of no requests, which counts will tell of each.
func NewDurations(now time.Time, counts *telemetry.Counts) *Durations {
	d := &Durations{
		counts: counts,
		took: newDurations(now, "request_duration_seconds",
			"Seconds from the end of a request's head to the end of its answer, of those that went to the backend and whose client stayed, by group."),
		waited: newDurations(now, "wait_seconds", "Seconds that requests were delayed, by group; of those that the limiter refused, how long they had waited. "+
			"Those that were not delayed are not in it."),
	}
	counts.Tell(d)
	return d
}

func newDurations(now time.Time, name, help string) durations {
	d := durations{desc: prometheus.NewDesc(Prefix+name, help, []string{"group"}, nil)}
	for g := range d.groups {
		d.groups[g] = newHistogram(now)
	}
	return d
}

// Count implements telemetry.Counter.
func (d *Durations) Count(shard int, some []telemetry.Counted) {
	for i := range some {
		r := &some[i]
		if r.Saw {
			d.took.groups[r.Group].observe(shard, r.Took)
		}
		if r.Waited > 0 {
			d.waited.groups[r.Group].observe(shard, r.Waited)
		}
	}
}

// Note implements telemetry.Recorder: a request with an id is an example.
func (d *Durations) Note(now time.Time, r *telemetry.Record) {
	if r.ID == "" {
		return
	}
	if took, saw := r.Took(now); saw {
		d.took.groups[r.Group].show(now, took, r.ID)
	}
	if waited := r.Waited(); waited > 0 {
		d.waited.groups[r.Group].show(now, waited, r.ID)
	}
}

// Describe implements prometheus.Collector.
func (d *Durations) Describe(to chan<- *prometheus.Desc) { to <- d.took.desc; to <- d.waited.desc }

// Collect implements prometheus.Collector.
func (d *Durations) Collect(to chan<- prometheus.Metric) {
	d.counts.CatchUp()
	d.took.collect(to)
	d.waited.collect(to)
}

func (d *durations) collect(to chan<- prometheus.Metric) {
	for g, h := range d.groups {
		m, err := h.metric(d.desc, telemetry.Group(g).String())
		if err != nil {
			m = prometheus.NewInvalidMetric(d.desc, err)
		}
		to <- m
	}
}
