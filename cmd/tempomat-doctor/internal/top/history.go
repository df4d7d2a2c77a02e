package top

import (
	"math"

	"tempomat/proxy/admin/api"
)

const (
	span     = 300.0 // seconds that the sparklines show
	mostKept = 4096  // points, whatever the interval
)

// point is a moment of the sparklines.
type point struct{ at, cpu, waiting float64 }

// history is the last points, the oldest first.
type history struct{ points []point }

// begin takes what was before we came.
func (h *history) begin(points []api.Point) {
	h.points = h.points[:0]
	for _, p := range points {
		one := point{at: p.At}
		for g := range api.Groups {
			one.cpu += p.CPU[g]
			one.waiting += float64(p.Waiting[g])
		}
		h.add(one)
	}
}

// add takes the latest point, and forgets those that the sparklines no longer show. One
// that is not later than the last (another proxy's clock) begins anew.
func (h *history) add(p point) {
	if n := len(h.points); n > 0 && p.at < h.points[n-1].at {
		h.points = h.points[:0]
	}
	old := 0
	for old < len(h.points) && (h.points[old].at < p.at-span || len(h.points)-old >= mostKept) {
		old++
	}
	h.points = append(h.points[:0], h.points[old:]...)
	h.points = append(h.points, p)
}

// columns are the greatest values of the parts of the span, the last on the right; NaN:
// none is known. A part without a point has the value of the one before it, if that is not
// older than hold seconds.
func (h *history) columns(n int, hold float64, value func(point) float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = math.NaN()
	}
	if n == 0 || len(h.points) == 0 {
		return out
	}
	step := span / float64(n)
	last := math.Floor(h.points[len(h.points)-1].at / step)
	at := func(p point) int { return n - 1 - int(last-math.Floor(p.at/step)) }
	for i, p := range h.points {
		from := at(p)
		to := from
		if i+1 < len(h.points) && h.points[i+1].at-p.at <= hold {
			to = at(h.points[i+1]) - 1
		}
		for c := max(from, 0); c <= max(from, to) && c < n; c++ {
			if math.IsNaN(out[c]) || value(p) > out[c] {
				out[c] = value(p)
			}
		}
	}
	return out
}
