package book

import (
	"hash/maphash"
	"math"
	"testing"

	"tempomat/internal/testkit"
)

// TestDistinct: the estimate is within 25 % (five standard errors, so that no seed fails) up to a million, and
// exact for small numbers. Old things are forgotten.
func TestDistinct(t *testing.T) {
	seed := maphash.MakeSeed()
	for _, n := range []int{0, 1, 2, 5, 100, 1000, 10_000, 1_000_000} {
		var d distinct
		for range 2 { // a repeated thing counts once
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
		testkit.Same(t, 0, d.estimate(), "%d forgotten: left", n)
	}
}
