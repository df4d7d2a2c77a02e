package telemetry

import (
	"cmp"
	"slices"
	"time"

	"tempomat/limiter"
)

// Ledger shows the accounts of keys to the admin API and the metrics. *limiter.Limiter implements it. Its
// methods may be called concurrently.
type Ledger interface {
	// Dump yields the rows of a class, or of all classes if class is "", in no order, until yield
	// returns false. It holds no lock while it yields.
	Dump(now time.Time, class string, yield func(limiter.Row) bool)
	// Find returns one key's row; false if the key is not remembered.
	Find(now time.Time, k limiter.Key) (limiter.Row, bool)
	// Classes returns the classes in configured order.
	Classes() []limiter.ClassInfo
}

// RowOrder compares two rows. The result is negative if a is shown before b.
type RowOrder func(a, b limiter.Row) int

// Orders returns the orders of tables by the name of their column. The first rows are the ones that an
// administrator looks for: the longest wait, the highest use, the deepest debt, the most recent request.
func Orders() map[string]RowOrder {
	return map[string]RowOrder{
		"wait":  tied(func(a, b limiter.Row) int { return cmp.Compare(b.Wait, a.Wait) }),
		"cpu":   tied(func(a, b limiter.Row) int { return cmp.Compare(b.CPU, a.CPU) }),
		"rate":  tied(func(a, b limiter.Row) int { return cmp.Compare(b.Rate, a.Rate) }),
		"level": tied(func(a, b limiter.Row) int { return cmp.Compare(a.Level, b.Level) }),
		"last":  tied(func(a, b limiter.Row) int { return cmp.Compare(a.Last, b.Last) }),
	}
}

// tied orders rows that are equal in the first order by CPU use, then by name, so that rows don't jump when a
// table is redrawn each second.
func tied(first RowOrder) RowOrder {
	return func(a, b limiter.Row) int {
		if c := first(a, b); c != 0 {
			return c
		}
		return cmp.Or(cmp.Compare(b.CPU, a.CPU), cmp.Compare(a.Class, b.Class), cmp.Compare(a.ID, b.ID))
	}
}

// TopRows keeps the first Limit of any number of rows, in the memory of twice as many. Limit must be at least
// 1. TopRows must not be used concurrently.
type TopRows struct {
	Limit int
	Order RowOrder
	Seen  int // number of offered rows
	rows  []limiter.Row
}

// Offer adds a row. Rows beyond the first ones are dropped from time to time.
func (t *TopRows) Offer(r limiter.Row) {
	t.Seen++
	if len(t.rows) == 2*t.Limit {
		t.cut()
	}
	t.rows = append(t.rows, r)
}

// cut sorts the rows and drops those beyond Limit.
func (t *TopRows) cut() {
	slices.SortFunc(t.rows, t.Order)
	t.rows = t.rows[:min(t.Limit, len(t.rows))]
}

// Sorted returns the first rows in order, never nil. Don't call Offer after it.
func (t *TopRows) Sorted() []limiter.Row {
	t.cut()
	return append([]limiter.Row{}, t.rows...)
}
