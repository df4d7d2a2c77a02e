package telemetry

import (
	"cmp"
	"math"
	"slices"
)

// Durations are counted in bins, each a tenth wider than the previous one. A quantile from 0.1 ms to a quarter
// of an hour is therefore wrong by at most 5 %.
const (
	Bins     = 168
	firstBin = 1e-4 // lower bound of the first bin, in seconds; shorter durations count there too
	binRatio = 1.1
	logRatio = 0.0953101798043249 // natural logarithm of binRatio
)

// Histogram counts durations by bin.
type Histogram [Bins]float64

// Add counts n durations of the given seconds.
func (h *Histogram) Add(seconds, n float64) {
	i := 0
	if seconds > firstBin {
		i = int(min(Bins-1, math.Log(seconds/firstBin)/logRatio))
	}
	h[i] += n
}

// Merge adds the counts of another Histogram.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o {
		h[i] += n
	}
}

// Quantile returns the duration, in seconds, that the given part of the durations doesn't exceed, or 0 if there
// are no durations.
func (h *Histogram) Quantile(part float64) float64 {
	all := 0.0
	for _, n := range h {
		all += n
	}
	if all <= 0 {
		return 0
	}
	i, below := 0, h[0]
	for below < all*part && i < Bins-1 {
		i++
		below += h[i]
	}
	return firstBin * math.Pow(binRatio, float64(i)+0.5)
}

// Top finds the most expensive of any number of things with a fixed number of rows. It is the space-saving
// algorithm (Metwally, Agrawal, El Abbadi, ICDT 2005), with CPU-seconds instead of counts. If all rows are
// taken, a new thing replaces the cheapest one and starts with its cost, because the new thing may have cost as
// much before it got a row. Row.Wrong is this possible error. With n rows, each thing with more than 1/n of the
// total cost has a row, however many other things clients invent.
type Top[K comparable] struct {
	Rows  []Row[K]
	index map[K]int // row of each key
}

// Row is the cost of one key, such as a page. Its index doesn't change.
type Row[K comparable] struct {
	Key   K
	Wrong float64 // largest possible error of CPU, which is never too low
	Use
}

// Use is the cost of some requests.
type Use struct {
	CPU   float64 // CPU-seconds
	N     float64 // number of finished requests
	Work  float64 // number of finished requests that the backend worked on
	Ended float64 // total CPU-seconds of the finished requests
}

func (u *Use) add(o Use) {
	u.CPU += o.CPU
	u.N += o.N
	u.Work += o.Work
	u.Ended += o.Ended
}

// NewTop makes a Top with the given number of rows.
func NewTop[K comparable](rows int) Top[K] {
	return Top[K]{Rows: make([]Row[K], rows), index: make(map[K]int)}
}

// Sure returns the lowest cost that the row's key can have.
func (r *Row[K]) Sure() float64 { return r.CPU - r.Wrong }

// Free reports whether the row is free.
func (r *Row[K]) Free() bool { return r.N == 0 && r.CPU == 0 }

// Mean returns the average cost of the finished requests that the backend worked on, or 0 if there are none.
// Refused and redirected requests don't count, because they don't show the cost of the page. It uses Ended
// because the first part of a long request's CPU has faded by its end.
func (r *Row[K]) Mean() float64 {
	if r.Work == 0 {
		return 0
	}
	return r.Ended / r.Work
}

// Add counts a thing's use. It returns the thing's row, and whether the thing has just got this row. The row is
// -1 if the thing cost nothing and no row is free.
func (t *Top[K]) Add(key K, u Use) (row int, fresh bool) {
	row, has := t.find(key)
	r := &t.Rows[row]
	switch {
	case has:
		r.add(u)
		r.CPU = max(r.CPU, r.Wrong)
		return row, false
	case u.CPU < 0 || u.N == 0 && u.CPU == 0 || !r.Free() && u.CPU == 0:
		return -1, false
	}
	wrong := r.CPU
	u.CPU += wrong
	t.Put(row, Row[K]{key, wrong, u})
	return row, true
}

// Put replaces the content of a row.
func (t *Top[K]) Put(row int, thing Row[K]) {
	t.leave(row)
	t.index[thing.Key] = row
	t.Rows[row] = thing
}

// leave removes a row from the index.
func (t *Top[K]) leave(row int) {
	if r := &t.Rows[row]; !r.Free() {
		delete(t.index, r.Key)
	}
}

// find returns the row of a key. If the key has none, it returns a free row, or the row of the cheapest key.
func (t *Top[K]) find(key K) (row int, has bool) {
	if i, ok := t.index[key]; ok {
		return i, true
	}
	least := 0
	for i := range t.Rows {
		r := &t.Rows[i]
		if r.Free() {
			return i, false
		}
		if r.CPU < t.Rows[least].CPU {
			least = i
		}
	}
	return least, false
}

// Fade multiplies all uses by a factor below 1. A row becomes free when its use is close to 0.
func (t *Top[K]) Fade(factor float64) {
	for i := range t.Rows {
		r := &t.Rows[i]
		if r.Free() {
			continue
		}
		if r.CPU*factor < 1e-6 && r.N*factor < 1e-3 {
			t.leave(i)
			*r = Row[K]{}
			continue
		}
		r.CPU, r.Wrong, r.N, r.Work, r.Ended = r.CPU*factor, r.Wrong*factor, r.N*factor, r.Work*factor, r.Ended*factor
	}
}

// Clear makes all rows free.
func (t *Top[K]) Clear() {
	clear(t.Rows)
	clear(t.index)
}

// Sorted returns the indexes of the rows that certainly cost least or more, the most expensive first.
func (t *Top[K]) Sorted(least float64) []int {
	var order []int
	for i := range t.Rows {
		if r := &t.Rows[i]; !r.Free() && r.Sure() >= least {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(t.Rows[b].Sure(), t.Rows[a].Sure()), cmp.Compare(a, b))
	})
	return order
}
