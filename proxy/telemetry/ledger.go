package telemetry

import (
	"cmp"
	"slices"
	"time"

	"tempomat/limiter"
)

// Ledger is what the admin API and the statistics show; *limiter.Limiter is
// one. All methods must be safe for concurrent use.
type Ledger interface {
	// Dump yields the rows of a class, of all classes if class is "", in no
	// order, until yield returns false. It holds no lock while it yields.
	Dump(now time.Time, class string, yield func(limiter.Row) bool)
	// Find returns one key's row; false if the key is not remembered.
	Find(now time.Time, k limiter.Key) (limiter.Row, bool)
	// Classes returns the classes in configured order.
	Classes() []limiter.ClassInfo
}

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

// tied completes an order: equal rows by CPU use, then by name, so a table that is redrawn each
// second stands still.
func tied(first RowOrder) RowOrder {
	return func(a, b limiter.Row) int {
		if c := first(a, b); c != 0 {
			return c
		}
		return cmp.Or(cmp.Compare(b.CPU, a.CPU), cmp.Compare(a.Class, b.Class), cmp.Compare(a.ID, b.ID))
	}
}

// TopRows keeps the first Limit rows of any number in an order, in the memory
// of twice as many. Limit is at least 1. One goroutine uses it.
type TopRows struct {
	Limit int
	Order RowOrder
	Seen  int // rows offered
	rows  []limiter.Row
}

// Offer takes r in if it is among the first so far.
func (t *TopRows) Offer(r limiter.Row) {
	t.Seen++
	if len(t.rows) == 2*t.Limit {
		t.cut()
	}
	t.rows = append(t.rows, r)
}

// cut leaves the first of the rows, in order.
func (t *TopRows) cut() {
	slices.SortFunc(t.rows, t.Order)
	t.rows = t.rows[:min(t.Limit, len(t.rows))]
}

// Sorted returns the rows kept, in order, never nil. Offer nothing after it.
func (t *TopRows) Sorted() []limiter.Row {
	t.cut()
	return append([]limiter.Row{}, t.rows...)
}
