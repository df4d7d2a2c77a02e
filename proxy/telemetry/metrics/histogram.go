package metrics

import (
	"math"
	"slices"
	"sort"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"tempomat/proxy/telemetry"
)

// Native bucket i has durations up to 2^(i/perDouble) seconds: in Prometheus' words these
// are buckets of schema 3, each 9 % wider than the one before.
const (
	schema    = 3
	perDouble = 1 << schema

	zeroBucket = -20 * perDouble // what took a microsecond or less is all alike
	lastBucket = 12 * perDouble  // more than an hour; what took longer is in it, too
)

// classicBounds are the upper bounds of the classic buckets, in seconds.
func classicBounds() []float64 {
	return []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}
}

// cellBounds are the upper bounds of both kinds of buckets, in seconds, in order. Each is the
// upper bound of a cell; one more cell has what is longer.
func cellBounds() []float64 {
	all := classicBounds()
	for i := zeroBucket; i < lastBucket; i++ {
		all = append(all, math.Exp2(float64(i)/perDouble))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// histogram counts durations for classic buckets and for native ones. The Prometheus
// library's own histogram costs a request more than all other telemetry together, as it
// keeps a sum of fractions and a map of buckets. Here a duration is counted in one cell, and
// Prometheus' form is made when it asks. Methods may be called concurrently.
type histogram struct {
	created  time.Time
	bounds   []float64
	near     nearCells
	shards   [telemetry.Shards]histogramShard
	examples []atomic.Pointer[prometheus.Exemplar] // the latest of each classic bucket
	shown    atomic.Int64                          // second of the latest of all
}

// histogramShard is a part of the durations.
type histogramShard struct {
	sum   atomic.Int64 // nanoseconds
	cells []atomic.Uint64
	_     [64]byte
}

func newHistogram(now time.Time) *histogram {
	h := &histogram{
		created: now, bounds: cellBounds(), near: newNearCells(cellBounds()),
		examples: make([]atomic.Pointer[prometheus.Exemplar], len(classicBounds())+1),
	}
	for i := range h.shards {
		h.shards[i].cells = make([]atomic.Uint64, len(h.bounds)+1)
	}
	return h
}

// observe counts a duration, in a shard below telemetry.Shards.
func (h *histogram) observe(shard int, d time.Duration) {
	s := &h.shards[shard]
	s.sum.Add(int64(d))
	s.cells[h.near.cell(d)].Add(1)
}

// show has a duration be an example, one in a second.
func (h *histogram) show(now time.Time, d time.Duration, id string) {
	if second := now.Unix(); h.shown.Load() != second && h.shown.Swap(second) != second {
		e := &prometheus.Exemplar{Value: d.Seconds(), Labels: prometheus.Labels{"request_id": id}, Timestamp: now}
		h.examples[sort.SearchFloat64s(classicBounds(), e.Value)].Store(e)
	}
}

// metric is the histogram as Prometheus takes it.
func (h *histogram) metric(desc *prometheus.Desc, group string) (prometheus.Metric, error) {
	var (
		sum         time.Duration
		count, zero uint64
		native      = map[int]int64{}
		classic     []*dto.Bucket
		bounds      = classicBounds()
	)
	for i := range h.shards {
		sum += time.Duration(h.shards[i].sum.Load())
	}
	for cell := range len(h.bounds) + 1 {
		n := uint64(0)
		for i := range h.shards {
			n += h.shards[i].cells[cell].Load()
		}
		count += n
		switch bucket := h.nativeBucket(cell); {
		case n == 0:
		case bucket == zeroBucket:
			zero += n
		default:
			native[bucket] += int64(n)
		}
		if at := len(classic); at < len(bounds) && h.bounds[cell] == bounds[at] {
			classic = append(classic, &dto.Bucket{UpperBound: new(bounds[at]), CumulativeCount: new(count)})
		}
	}
	m, err := prometheus.NewConstNativeHistogram(desc, count, sum.Seconds(), native, nil, zero,
		schema, math.Exp2(zeroBucket/perDouble), h.created, group)
	if err != nil {
		return nil, err
	}
	return h.withExamples(bothKinds{m, classic})
}

// nativeBucket is the native bucket in which a cell is.
func (h *histogram) nativeBucket(cell int) int {
	if cell == len(h.bounds) {
		return lastBucket
	}
	const rounding = 1e-9
	return int(math.Ceil(math.Log2(h.bounds[cell])*perDouble - rounding))
}

func (h *histogram) withExamples(m prometheus.Metric) (prometheus.Metric, error) {
	var all []prometheus.Exemplar
	for i := range h.examples {
		if e := h.examples[i].Load(); e != nil {
			all = append(all, *e)
		}
	}
	if len(all) == 0 {
		return m, nil
	}
	return prometheus.NewMetricWithExemplars(m, all...)
}

// bothKinds is a native histogram that has classic buckets, too.
type bothKinds struct {
	prometheus.Metric
	classic []*dto.Bucket
}

// Write implements prometheus.Metric.
func (b bothKinds) Write(out *dto.Metric) error {
	if err := b.Metric.Write(out); err != nil {
		return err
	}
	out.Histogram.Bucket = b.classic
	return nil
}
