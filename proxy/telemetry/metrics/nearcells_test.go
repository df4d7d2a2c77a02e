package metrics

import (
	"math"
	"sort"
	"testing"
	"time"
)

// TestNearCells: around each bound, and at both ends, a duration is in the first cell whose
// bound is not below it.
func TestNearCells(t *testing.T) {
	bounds := cellBounds()
	near := newNearCells(bounds)
	tried := []time.Duration{math.MinInt64, -1, 0, 1, math.MaxInt64}
	for _, b := range near.bounds {
		tried = append(tried, b-1, b, b+1)
	}
	for _, d := range tried {
		if got, want := near.cell(d), sort.SearchFloat64s(bounds, d.Seconds()); got != want {
			t.Errorf("%d ns is in cell %d, want %d", d, got, want)
		}
	}
}
