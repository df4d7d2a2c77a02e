package metrics

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// written is what Prometheus gets of h.
func written(t *testing.T, h *histogram) *dto.Histogram {
	t.Helper()
	m, err := h.metric(prometheus.NewDesc("h", "h", []string{"group"}, nil), "known")
	if err != nil {
		t.Fatal(err)
	}
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.GetHistogram()
}

// TestHistogramIsTheLibrarys: the same durations are in the same buckets as in a histogram of
// the library, bounds included.
func TestHistogramIsTheLibrarys(t *testing.T) {
	began := time.Unix(1_000_000, 0)
	theirs := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "h", Buckets: classicBounds(), NativeHistogramBucketFactor: 1.1, NativeHistogramZeroThreshold: 0x1p-20,
	})
	ours := newHistogram(began)
	durations := []time.Duration{
		-time.Second, 0, 1, time.Microsecond, 5 * time.Millisecond, time.Second, 2 * time.Second, 300 * time.Second, time.Hour,
		954 * time.Nanosecond, 953 * time.Nanosecond, // on both sides of 2^-20 s
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		durations = append(durations, time.Duration(math.Exp(rng.Float64()*math.Log(float64(time.Hour)))))
	}
	for _, d := range durations {
		if d >= 0 { // theirs has buckets for negative ones, which no clock of ours gives
			theirs.Observe(d.Seconds())
			ours.observe(0, d)
		}
	}
	var out dto.Metric
	if err := theirs.Write(&out); err != nil {
		t.Fatal(err)
	}
	want, got := out.GetHistogram(), written(t, ours)
	if got.GetSampleCount() != want.GetSampleCount() || math.Abs(got.GetSampleSum()/want.GetSampleSum()-1) > 1e-9 {
		t.Errorf("%d of %v s, want %d of %v s", got.GetSampleCount(), got.GetSampleSum(), want.GetSampleCount(), want.GetSampleSum())
	}
	if got.GetSchema() != want.GetSchema() || got.GetZeroThreshold() != want.GetZeroThreshold() || got.GetZeroCount() != want.GetZeroCount() {
		t.Errorf("schema %d, %d of at most %v s, want %d, %d of %v", got.GetSchema(), got.GetZeroCount(), got.GetZeroThreshold(),
			want.GetSchema(), want.GetZeroCount(), want.GetZeroThreshold())
	}
	if !slices.Equal(got.GetPositiveDelta(), want.GetPositiveDelta()) {
		t.Errorf("native buckets %v, want %v", got.GetPositiveDelta(), want.GetPositiveDelta())
	}
	if !slices.EqualFunc(got.GetPositiveSpan(), want.GetPositiveSpan(), func(a, b *dto.BucketSpan) bool { return a.String() == b.String() }) {
		t.Errorf("spans %v, want %v", got.GetPositiveSpan(), want.GetPositiveSpan())
	}
	if !slices.EqualFunc(got.GetBucket(), want.GetBucket(), func(a, b *dto.Bucket) bool { return a.String() == b.String() }) {
		t.Errorf("classic buckets %v, want %v", got.GetBucket(), want.GetBucket())
	}
}

// TestHistogramEnds: what is shorter or longer than all buckets is counted.
func TestHistogramEnds(t *testing.T) {
	h := newHistogram(time.Unix(1_000_000, 0))
	for _, d := range []time.Duration{math.MinInt64, -1, math.MaxInt64, 1000 * time.Hour} {
		h.observe(0, d)
	}
	got := written(t, h)
	if got.GetSampleCount() != 4 || got.GetZeroCount() != 2 || !slices.Equal(got.GetPositiveDelta(), []int64{2}) {
		t.Errorf("%v", got)
	}
	if last := got.GetPositiveSpan()[0].GetOffset(); last != lastBucket {
		t.Errorf("the longest are in bucket %d, want %d", last, lastBucket)
	}
	if in := got.GetBucket()[len(classicBounds())-1].GetCumulativeCount(); in != 2 {
		t.Errorf("%d in the classic buckets, want the two short ones", in)
	}
}

// TestHistogramExamples: the latest of each bucket, those that are longer than all bounds too.
func TestHistogramExamples(t *testing.T) {
	h := newHistogram(time.Unix(1_000_000, 0))
	for i, d := range []time.Duration{time.Second, time.Hour, time.Second} {
		h.observe(0, d)
		h.show(h.created.Add(time.Duration(i)*time.Second), d, string(rune('a'+i)))
	}
	shown := map[string]float64{}
	for _, b := range written(t, h).GetBucket() {
		if e := b.GetExemplar(); e != nil {
			shown[e.GetLabel()[0].GetValue()] = b.GetUpperBound()
		}
	}
	if len(shown) != 2 || shown["c"] != 1 || shown["b"] != math.Inf(1) {
		t.Errorf("%v", shown)
	}
}

// TestHistogramAsked: what is asked for while requests end is consistent.
func TestHistogramAsked(t *testing.T) {
	h := newHistogram(time.Unix(1_000_000, 0))
	const each = 20_000
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range each {
				h.observe(0, time.Duration(i)*time.Microsecond)
			}
		})
	}
	for before := uint64(0); before < 4*each; {
		got := written(t, h)
		if last := got.GetBucket()[len(classicBounds())-1].GetCumulativeCount(); last > got.GetSampleCount() || got.GetSampleCount() < before {
			t.Fatalf("%d in classic buckets, %d in all, %d before", last, got.GetSampleCount(), before)
		}
		before = got.GetSampleCount()
	}
	all.Wait()
}
