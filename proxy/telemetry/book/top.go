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
	n     float64 // requests; 0 and no cpu: the row is free
	work  float64 // requests of them that the backend worked on
}

func newTop[K comparable](rows int) top[K] { return top[K]{rows: make([]topRow[K], rows)} }

// sure is what a thing surely cost.
func (r *topRow[K]) sure() float64 { return r.cpu - r.wrong }

func (r *topRow[K]) free() bool { return r.n == 0 && r.cpu == 0 }

// amount is what is counted of a thing.
type amount struct {
	cpu  float64 // CPU-seconds
	n    float64 // requests that are over
	work float64 // of them, those that the backend worked on
}

// add counts an amount, and tells in which row, and whether another thing had
// that until now. It is -1 if there is no room for a thing that costs nothing.
func (t *top[K]) add(key K, a amount) (row int, fresh bool) {
	least := -1
	for i := range t.rows {
		r := &t.rows[i]
		if r.key == key && !r.free() {
			r.cpu = max(r.cpu+a.cpu, r.wrong)
			r.n, r.work = r.n+a.n, r.work+a.work
			return i, false
		}
		if least < 0 || r.cpu < t.rows[least].cpu || r.free() && !t.rows[least].free() {
			least = i
		}
	}
	r := &t.rows[least]
	if a.cpu < 0 || a.n == 0 && a.cpu == 0 || !r.free() && a.cpu == 0 {
		return -1, false
	}
	*r = topRow[K]{key: key, cpu: r.cpu + a.cpu, wrong: r.cpu, n: a.n, work: a.work}
	return least, true
}

// fade has all count for less.
func (t *top[K]) fade(factor float64) {
	for i := range t.rows {
		r := &t.rows[i]
		r.cpu, r.wrong, r.n, r.work = r.cpu*factor, r.wrong*factor, r.n*factor, r.work*factor
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
