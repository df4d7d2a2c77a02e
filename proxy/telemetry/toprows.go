package proxy

import (
	"cmp"
	"container/heap"
	"slices"

	"tempomat/limiter"
)

// rowOrder compares two rows: below zero if a is to be shown before b.
type rowOrder func(a, b limiter.Row) int

// adminOrders are the orders that buckets can be shown in, by the name of the
// column. Each shows first what an administrator looks for: the longest wait,
// the most use, the deepest debt, the most recent.
func adminOrders() map[string]rowOrder {
	return map[string]rowOrder{
		"wait":  tied(func(a, b limiter.Row) int { return cmp.Compare(b.Wait, a.Wait) }),
		"cpu":   tied(func(a, b limiter.Row) int { return cmp.Compare(b.CPU, a.CPU) }),
		"rate":  tied(func(a, b limiter.Row) int { return cmp.Compare(b.Rate, a.Rate) }),
		"level": tied(func(a, b limiter.Row) int { return cmp.Compare(a.Level, b.Level) }),
		"last":  tied(func(a, b limiter.Row) int { return cmp.Compare(a.Last, b.Last) }),
	}
}

// tied completes an order: equal rows by CPU use, then by name, so that a table
// that is redrawn each second stands still.
func tied(first rowOrder) rowOrder {
	return func(a, b limiter.Row) int {
		if c := first(a, b); c != 0 {
			return c
		}
		return cmp.Or(cmp.Compare(b.CPU, a.CPU), cmp.Compare(a.Class, b.Class), cmp.Compare(a.ID, b.ID))
	}
}

// topRows keeps the first limit rows of any number in an order, in the memory
// of limit rows: a heap with the last of them at its root. Limit is at least 1.
type topRows struct {
	limit int
	order rowOrder
	rows  []limiter.Row
	seen  int // rows offered
}

func (t *topRows) Len() int           { return len(t.rows) }
func (t *topRows) Less(i, j int) bool { return t.order(t.rows[i], t.rows[j]) > 0 }
func (t *topRows) Swap(i, j int)      { t.rows[i], t.rows[j] = t.rows[j], t.rows[i] }
func (t *topRows) Push(x any)         { t.rows = append(t.rows, x.(limiter.Row)) }
func (t *topRows) Pop() any           { panic("rows are replaced, never taken out") }

// offer takes r in if it is among the first so far.
func (t *topRows) offer(r limiter.Row) {
	t.seen++
	switch {
	case len(t.rows) < t.limit:
		heap.Push(t, r)
	case t.order(r, t.rows[0]) < 0:
		t.rows[0] = r
		heap.Fix(t, 0)
	}
}

// sorted returns the rows kept, in order, never nil. Offer nothing after it.
func (t *topRows) sorted() []limiter.Row {
	slices.SortFunc(t.rows, t.order)
	if t.rows == nil {
		return []limiter.Row{}
	}
	return t.rows
}
