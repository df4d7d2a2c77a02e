package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tempomat/proxy/telemetry"
)

// Durations is how long requests take and wait, by group, as histograms. It implements
// telemetry.Recorder.
type Durations struct {
	took, waited           *prometheus.HistogramVec
	tookBy, waitedBy       [telemetry.Groups]prometheus.Observer
	tookShown, waitedShown [telemetry.Groups]atomic.Int64 // second of the last exemplar
}

// NewDurations makes Durations of no requests.
func NewDurations() *Durations {
	d := &Durations{
		took: histogram("request_duration_seconds", "Seconds from the end of a request's head to the end of its answer, of those that went to the backend and whose client stayed, by group."),
		waited: histogram("wait_seconds", "Seconds that requests were delayed, by group; of those that the limiter refused, how long they had waited. "+
			"Those that were not delayed are not in it."),
	}
	for g := range telemetry.Groups {
		name := telemetry.Group(g).String()
		d.tookBy[g], d.waitedBy[g] = d.took.WithLabelValues(name), d.waited.WithLabelValues(name)
	}
	return d
}

// histogram is a classic one and a native one.
func histogram(name, help string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: Prefix + name, Help: help,
		Buckets:                     []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300},
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}, []string{"group"})
}

// Describe implements prometheus.Collector.
func (d *Durations) Describe(to chan<- *prometheus.Desc) { d.took.Describe(to); d.waited.Describe(to) }

// Collect implements prometheus.Collector.
func (d *Durations) Collect(to chan<- prometheus.Metric) { d.took.Collect(to); d.waited.Collect(to) }

// Note implements telemetry.Recorder.
func (d *Durations) Note(now time.Time, r *telemetry.Record) {
	switch r.Outcome {
	case telemetry.Answered, telemetry.BackendDown, telemetry.BackendSlow, telemetry.BackendBroke:
		if !r.Orphan { // nobody saw how long that took
			observe(d.tookBy[r.Group], &d.tookShown[r.Group], now, now.Sub(r.Arrived), r.ID)
		}
	case telemetry.ClientGone, telemetry.Refused, telemetry.Redirected:
	}
	if waited := r.Waited(); waited > 0 {
		observe(d.waitedBy[r.Group], &d.waitedShown[r.Group], now, waited, r.ID)
	}
}

// observe takes in a duration. A request with an id is shown as an example, one in a second
// for each group, as that costs more.
func observe(o prometheus.Observer, shown *atomic.Int64, now time.Time, d time.Duration, id string) {
	if id != "" {
		if s := now.Unix(); shown.Swap(s) != s {
			o.(prometheus.ExemplarObserver).ObserveWithExemplar(d.Seconds(), prometheus.Labels{"request_id": id})
			return
		}
	}
	o.Observe(d.Seconds())
}
