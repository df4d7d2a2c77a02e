package telemetry_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tempomat/proxy/telemetry"
)

// TestQuantile: percentiles are within a bin's width of the true ones.
func TestQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h telemetry.Histogram
		all := rapid.SliceOfN(rapid.Float64Range(1e-4, 900), 1, 200).Draw(t, "durations")
		for _, x := range all {
			h.Add(x, 1)
		}
		slices.Sort(all)
		for _, part := range []float64{0.5, 0.95, 1} {
			want := all[int(math.Ceil(part*float64(len(all))))-1]
			if got := h.Quantile(part); got < want/1.06 || got > want*1.06 {
				t.Errorf("%v: %v, want %v", part, got, want)
			}
		}
	})
	var h telemetry.Histogram
	for _, x := range []float64{-1, 0, 1e-9, 1e9, math.Inf(1)} {
		h.Add(x, 1)
	}
	if h[0] != 3 || h[telemetry.Bins-1] != 2 {
		t.Error("what is out of range")
	}
}

// TestTop: the real cost of a thing lies between its sure cost and its counted cost. With n rows, each thing
// that costs more than 1/n of the total has a row.
func TestTop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SampledFrom([]int{8, 40}).Draw(t, "rows")
		top, truth, all := telemetry.NewTop[int](rows), map[int]float64{}, 0.0
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for range rapid.IntRange(1, 500).Draw(t, "adds") {
			key, cpu := int(rng.ExpFloat64()*float64(rows)), rng.Float64()+0.01
			top.Add(key, telemetry.Use{CPU: cpu, N: 1, Work: 1, Ended: cpu})
			truth[key] += cpu
			all += cpu
			if rng.IntN(50) == 0 {
				top.Fade(0.9)
				for k := range truth {
					truth[k] *= 0.9
				}
				all *= 0.9
			}
		}
		kept := map[int]bool{}
		for _, i := range top.Sorted(0) {
			r := &top.Rows[i]
			kept[r.Key] = true
			if x := truth[r.Key]; r.Sure() > x+1e-9 || r.CPU < x-1e-9 {
				t.Errorf("%d cost %v, said to be %v to %v", r.Key, x, r.Sure(), r.CPU)
			}
		}
		for k, x := range truth {
			if x > all/float64(rows)+1e-9 && !kept[k] {
				t.Errorf("%d cost %v of %v and is not among %d", k, x, all, rows)
			}
		}
	})
}

// TestFreeThingsDriveOutNone: a thing that costs nothing never takes another's row.
func TestFreeThingsDriveOutNone(t *testing.T) {
	top := telemetry.NewTop[int](20)
	for i := range 40 {
		top.Add(-i, telemetry.Use{CPU: 1, N: 1})
		top.Add(i+1, telemetry.Use{N: 1})
	}
	for i := range top.Rows {
		if r := &top.Rows[i]; r.CPU == 0 {
			t.Errorf("%d costs nothing", r.Key)
		}
	}
}
