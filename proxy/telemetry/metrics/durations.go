package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tempomat/proxy/telemetry"
)

// Durations is how long requests take and wait, by group, as histograms. It implements
// telemetry.Recorder and prometheus.Collector. Its methods may be called concurrently.
type Durations struct {
	took, waited durations
}

// durations is a histogram for each group.
type durations struct {
	desc   *prometheus.Desc
	groups [telemetry.Groups]*histogram
}

// NewDurations makes Durations of no requests.
func NewDurations(now time.Time) *Durations {
	return &Durations{
		took: newDurations(now, "request_duration_seconds",
			"Seconds from the end of a request's head to the end of its answer, of those that went to the backend and whose client stayed, by group."),
		waited: newDurations(now, "wait_seconds", "Seconds that requests were delayed, by group; of those that the limiter refused, how long they had waited. "+
			"Those that were not delayed are not in it."),
	}
}

func newDurations(now time.Time, name, help string) durations {
	d := durations{desc: prometheus.NewDesc(Prefix+name, help, []string{"group"}, nil)}
	for g := range d.groups {
		d.groups[g] = newHistogram(now)
	}
	return d
}

// Note implements telemetry.Recorder.
func (d *Durations) Note(now time.Time, r *telemetry.Record) {
	switch r.Outcome {
	case telemetry.Answered, telemetry.BackendDown, telemetry.BackendSlow, telemetry.BackendBroke:
		if !r.Orphan { // nobody saw how long that took
			d.took.groups[r.Group].observe(now, r.Shard, now.Sub(r.Arrived), r.ID)
		}
	case telemetry.ClientGone, telemetry.Refused, telemetry.Redirected:
	}
	if waited := r.Waited(); waited > 0 {
		d.waited.groups[r.Group].observe(now, r.Shard, waited, r.ID)
	}
}

// Describe implements prometheus.Collector.
func (d *Durations) Describe(to chan<- *prometheus.Desc) { to <- d.took.desc; to <- d.waited.desc }

// Collect implements prometheus.Collector.
func (d *Durations) Collect(to chan<- prometheus.Metric) { d.took.collect(to); d.waited.collect(to) }

func (d *durations) collect(to chan<- prometheus.Metric) {
	for g, h := range d.groups {
		m, err := h.metric(d.desc, telemetry.Group(g).String())
		if err != nil {
			m = prometheus.NewInvalidMetric(d.desc, err)
		}
		to <- m
	}
}
