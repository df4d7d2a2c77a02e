package telemetry

import (
	"cmp"
	"math"
	"slices"
)

// Durations are counted in bins, each a tenth wider than the one before, so a quantile is wrong
// by 5 % at most, from 0.1 ms to a quarter of an hour.
const (
	Bins     = 168
	firstBin = 1e-4 // seconds
	binRatio = 1.1
	logRatio = 0.0953101798043249 // its natural logarithm
)

// Histogram counts durations by bin.
type Histogram [Bins]float64

// Add counts n durations of that many seconds.
func (h *Histogram) Add(seconds, n float64) {
	i := 0
	if seconds > firstBin {
		i = int(min(Bins-1, math.Log(seconds/firstBin)/logRatio))
	}
	h[i] += n
}

// Merge counts what another one has counted.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o {
		h[i] += n
	}
}

// Quantile is the duration, in seconds, that a part of them does not exceed; 0 if there are
// none.
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

// Top keeps the most expensive of any number of things in the memory of a few: the space-saving
// algorithm (Metwally, Agrawal, El Abbadi, ICDT 2005), with CPU-seconds in the place of counts.
// A thing that finds no room takes the row of the cheapest one, and inherits its cost as a
// bound of its error: a thing that costs more than its part of all rows is kept, however many
// others clients invent.
type Top[K comparable] struct {
	Rows  []Row[K]
	index map[K]int // of the rows
}

// Row is what a thing cost. It stays in its place.
type Row[K comparable] struct {
	Key   K
	Wrong float64 // bound bound by which its CPU may be too high
	Use
}

// Use is what requests cost since they were told of last.
type Use struct {
	CPU   float64 // CPU-seconds
	N     float64 // requests that are over
	Work  float64 // of these, those that the backend worked on
	Ended float64 // CPU-seconds that these cost, from their beginning to their end
}

func (u *Use) add(o Use) {
	u.CPU += o.CPU
	u.N += o.N
	u.Work += o.Work
	u.Ended += o.Ended
}

// NewTop makes one of that many rows.
func NewTop[K comparable](rows int) Top[K] {
	return Top[K]{Rows: make([]Row[K], rows), index: make(map[K]int)}
}

// Sure is what a thing surely cost.
func (r *Row[K]) Sure() float64 { return r.CPU - r.Wrong }

// Free reports whether no thing has the row.
func (r *Row[K]) Free() bool { return r.N == 0 && r.CPU == 0 }

// Mean is the cost of a request that the backend worked on, 0 if none has ended: refused and
// redirected ones show nothing about the page. Computed from CPU it would be too low for long
// requests, because their first part has faded when they end.
func (r *Row[K]) Mean() float64 {
	if r.Work == 0 {
		return 0
	}
	return r.Ended / r.Work
}

// Add counts a thing's use, and returns its row and whether another thing had that row until
// now. The row is -1 if there is no room for a thing that costs nothing.
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

// Put puts a thing into a row, in the place of the one that has it.
func (t *Top[K]) Put(row int, thing Row[K]) {
	t.leave(row)
	t.index[thing.Key] = row
	t.Rows[row] = thing
}

// leave takes a row out of the index.
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

// Fade has all count for less. A row becomes free once its thing is over.
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

// Sorted are the rows of the things that surely cost at least that, the most expensive first.
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
