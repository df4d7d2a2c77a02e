package book

import (
	"hash/maphash"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestQuantile: percentiles are within the width of a class of the true ones.
func TestQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h histogram
		all := rapid.SliceOfN(rapid.Float64Range(1e-4, 900), 1, 200).Draw(t, "durations")
		for _, x := range all {
			h.add(x, 1)
		}
		slices.Sort(all)
		for _, part := range []float64{0.5, 0.95, 1} {
			want := all[int(math.Ceil(part*float64(len(all))))-1]
			if got := h.quantile(part); got < want/1.06 || got > want*1.06 {
				t.Errorf("%v: %v, want %v", part, got, want)
			}
		}
	})
	var h histogram
	for _, x := range []float64{-1, 0, 1e-9, 1e9, math.Inf(1)} {
		h.add(x, 1)
	}
	if h[0] != 3 || h[bins-1] != 2 {
		t.Error("what is out of range")
	}
}

// TestDistinct: the estimate is within 25 % (five standard errors, so that no seed fails) up to a million, exact
// for few, and things are forgotten.
func TestDistinct(t *testing.T) {
	seed := maphash.MakeSeed()
	for _, n := range []int{0, 1, 2, 5, 100, 1000, 10_000, 1_000_000} {
		var d distinct
		for range 2 { // again is not another
			for i := range n {
				d.add(i%stretches, maphash.Comparable(seed, i))
			}
		}
		got := float64(d.estimate())
		if math.Abs(got-float64(n)) > 0.25*float64(n)+0.5 {
			t.Errorf("%d are estimated at %v", n, got)
		}
		for turn := range stretches {
			d.forget(turn)
		}
		if got := d.estimate(); got != 0 {
			t.Errorf("%d forgotten: %d are left", n, got)
		}
	}
}

// TestTop: what a thing cost lies between what it surely did and its count, and what costs
// more than an n-th of all is among n.
func TestTop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const rows = 8
		top, truth, all := newTop[int](rows), map[int]float64{}, 0.0
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for range rapid.IntRange(1, 500).Draw(t, "adds") {
			key, cpu := int(rng.ExpFloat64()*6), rng.Float64()+0.01
			top.add(key, use{cpu: cpu, n: 1, work: 1, ended: cpu})
			truth[key] += cpu
			all += cpu
			if rng.IntN(50) == 0 {
				top.fade(0.9)
				for k := range truth {
					truth[k] *= 0.9
				}
				all *= 0.9
			}
		}
		kept := map[int]bool{}
		for _, i := range top.sorted(0) {
			r := &top.rows[i]
			kept[r.key] = true
			if x := truth[r.key]; r.sure() > x+1e-9 || r.cpu < x-1e-9 {
				t.Errorf("%d cost %v, said to be %v to %v", r.key, x, r.sure(), r.cpu)
			}
		}
		for k, x := range truth {
			if x > all/rows+1e-9 && !kept[k] {
				t.Errorf("%d cost %v of %v and is not among %d", k, x, all, rows)
			}
		}
	})
}
