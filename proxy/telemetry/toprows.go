package telemetry

import (
	"cmp"
	"container/heap"
	"slices"

	"tempomat/limiter"
)

// RowOrder compares two rows: below zero if a is to be shown before b.
type RowOrder func(a, b limiter.Row) int

// Orders are the orders that buckets can be shown in, by the name of the
// column. Each shows first what an administrator looks for: the longest wait,
// the most use, the deepest debt, the most recent.
func Orders() map[string]RowOrder {
	return map[string]RowOrder{
		"wait":  tied(func(a, b limiter.Row) int { return cmp.Compare(b.Wait, a.Wait) }),
		"cpu":   tied(func(a, b limiter.Row) int { return cmp.Compare(b.CPU, a.CPU) }),
		"rate":  tied(func(a, b limiter.Row) int { return cmp.Compare(b.Rate, a.Rate) }),
		"level": tied(func(a, b limiter.Row) int { return cmp.Compare(a.Level, b.Level) }),
		"last":  tied(func(a, b limiter.Row) int { return cmp.Compare(a.Last, b.Last) }),
	}
}

// tied completes an order: equal rows by CPU use, then by name, so that a table
// that is redrawn each second stands still.
func tied(first RowOrder) RowOrder {
	return func(a, b limiter.Row) int {
		if c := first(a, b); c != 0 {
			return c
		}
		return cmp.Or(cmp.Compare(b.CPU, a.CPU), cmp.Compare(a.Class, b.Class), cmp.Compare(a.ID, b.ID))
	}
}

// TopRows keeps the first Limit rows of any number in an order, in the memory
// of Limit rows. Limit is at least 1. One goroutine uses it.
type TopRows struct {
	Limit int
	Order RowOrder
	Seen  int // rows offered
	rows  rowHeap
}

// Offer takes r in if it is among the first so far.
func (t *TopRows) Offer(r limiter.Row) {
	t.Seen++
	t.rows.order = t.Order
	switch {
	case t.rows.Len() < t.Limit:
		heap.Push(&t.rows, r)
	case t.Order(r, t.rows.rows[0]) < 0:
		t.rows.rows[0] = r
		heap.Fix(&t.rows, 0)
	}
}

// Sorted returns the rows kept, in order, never nil. Offer nothing after it.
func (t *TopRows) Sorted() []limiter.Row {
	slices.SortFunc(t.rows.rows, t.Order)
	if t.rows.rows == nil {
		return []limiter.Row{}
	}
	return t.rows.rows
}

// rowHeap is a heap with the last row in its order at the root.
type rowHeap struct {
	order RowOrder
	rows  []limiter.Row
}

func (h *rowHeap) Len() int           { return len(h.rows) }
func (h *rowHeap) Less(i, j int) bool { return h.order(h.rows[i], h.rows[j]) > 0 }
func (h *rowHeap) Swap(i, j int)      { h.rows[i], h.rows[j] = h.rows[j], h.rows[i] }
func (h *rowHeap) Push(x any)         { h.rows = append(h.rows, x.(limiter.Row)) }
func (h *rowHeap) Pop() any           { panic("rows are replaced, never taken out") }
