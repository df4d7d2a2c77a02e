package book

import (
	"cmp"
	"slices"
)

// top keeps the dearest of any number of things in the memory of a few: the space-saving
// algorithm (Metwally, Agrawal, El Abbadi 2005). A thing that finds no room takes the row of
// the cheapest one, and inherits its cost as what it may be wrong by. All fades with time,
// so a row becomes free once its thing is over.
type top[K comparable] struct {
	rows []topRow[K]
}

type topRow[K comparable] struct {
	key   K
	cpu   float64 // CPU-seconds, as they fade
	wrong float64 // by which cpu may be too high
	n     float64 // requests that are over; 0 and no cpu: the row is free
	work  float64 // of these, those that the backend worked on
	ended float64 // CPU-seconds that these cost, from their beginning to their end
}

func newTop[K comparable](rows int) top[K] { return top[K]{rows: make([]topRow[K], rows)} }

// use is what requests cost since they were told of last.
type use struct {
	cpu   float64 // CPU-seconds
	n     float64 // requests that are over
	work  float64 // of these, those that the backend worked on
	ended float64 // CPU-seconds that these cost, from their beginning to their end
}

// sure is what a thing surely cost.
func (r *topRow[K]) sure() float64 { return r.cpu - r.wrong }

func (r *topRow[K]) free() bool { return r.n == 0 && r.cpu == 0 }

// mean is what a request cost that the backend worked on, 0 if none is over: those that
// were refused or redirected say nothing of the page. Of cpu it would be too low for
// those that run long, as what they cost at first has faded when they end.
func (r *topRow[K]) mean() float64 {
	if r.work == 0 {
		return 0
	}
	return r.ended / r.work
}

// add counts a thing's use, and tells in which row, and whether another thing had that until
// now. It is -1 if there is no room for a thing that costs nothing.
func (t *top[K]) add(key K, u use) (row int, fresh bool) {
	least := -1
	for i := range t.rows {
		r := &t.rows[i]
		if r.key == key && !r.free() {
			r.cpu = max(r.cpu+u.cpu, r.wrong)
			r.n += u.n
			r.work += u.work
			r.ended += u.ended
			return i, false
		}
		if least < 0 || r.cpu < t.rows[least].cpu || r.free() && !t.rows[least].free() {
			least = i
		}
	}
	r := &t.rows[least]
	if u.cpu < 0 || u.n == 0 && u.cpu == 0 || !r.free() && u.cpu == 0 {
		return -1, false
	}
	*r = topRow[K]{key: key, cpu: r.cpu + u.cpu, wrong: r.cpu, n: u.n, work: u.work, ended: u.ended}
	return least, true
}

// fade has all count for less.
func (t *top[K]) fade(factor float64) {
	for i := range t.rows {
		r := &t.rows[i]
		r.cpu, r.wrong, r.n, r.work, r.ended = r.cpu*factor, r.wrong*factor, r.n*factor, r.work*factor, r.ended*factor
		if r.cpu < 1e-6 && r.n < 1e-3 {
			*r = topRow[K]{}
		}
	}
}

func (t *top[K]) clear() { clear(t.rows) }

// sorted are the rows of those that surely cost at least that, the dearest first.
func (t *top[K]) sorted(least float64) []int {
	var order []int
	for i := range t.rows {
		if r := &t.rows[i]; !r.free() && r.sure() >= least {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(t.rows[b].sure(), t.rows[a].sure()), cmp.Compare(a, b))
	})
	return order
}
