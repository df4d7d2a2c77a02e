package telemetry

import (
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
