package limiter

import "time"

// Row is what the doctor shows of one key.
type Row struct {
	Class string `json:"class"`
	ID    string `json:"id"`
	// Level is the key's balance in CPU-seconds: above zero credit, below debt.
	Level float64 `json:"level"`
	// Wait is the average time in seconds that the key delayed its latest
	// requests: each one moves it by a tenth, as in the original.
	Wait float64 `json:"wait"`
	// CPU is the CPU time that the key lately used, in CPU-seconds per second.
	CPU float64 `json:"cpu"`
	// Rate is the requests per second that the key lately made.
	Rate float64 `json:"rate"`
	// Last is how long ago the key was last used, in seconds.
	Last float64 `json:"last"`
	// Running counts its requests at the backend, Waiting those that wait in the
	// queue before its debt.
	Running int `json:"running"`
	Waiting int `json:"waiting"`
}

// ClassInfo is a class and what each of its keys may use.
type ClassInfo struct {
	Name   string
	Budget Budget
}

// Classes returns the classes of the policy in force, in configured order.
func (l *Limiter) Classes() []ClassInfo {
	return l.table.policy.Load().Classes
}

// Dump calls yield with a Row for every key of a class (of all configured
// classes if class is empty), in no order, until yield returns false. Keys that
// come or go meanwhile may be missed. No lock is held while yield runs.
func (l *Limiter) Dump(now time.Time, class string, yield func(Row) bool) {
	at := l.since(now)
	p := l.table.policy.Load()
	var rows []Row
	for i := range l.table.shards {
		rows = rows[:0]
		l.table.shards[i].each(func(b *bucket) {
			if class == "" && p.class(b.key.Class) != nil || b.key.Class == class {
				rows = append(rows, b.rowLocked(at))
			}
		})
		for _, r := range rows {
			if !yield(r) {
				return
			}
		}
	}
}

// Find returns the Row of one key, and whether it is known. A key that is not
// known has its whole burst.
func (l *Limiter) Find(now time.Time, k Key) (r Row, found bool) {
	at := l.since(now)
	found = l.table.look(k, func(b *bucket) { r = b.rowLocked(at) })
	return r, found
}
