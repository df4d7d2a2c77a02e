// Package telemetrytest provides accounts that don't change, for tests that show accounts.
package telemetrytest

import (
	"time"

	"tempomat/limiter"
)

// Ledger is a telemetry.Ledger whose rows don't change.
type Ledger struct {
	ClassList []limiter.ClassInfo
	Rows      []limiter.Row
}

// Classes implements telemetry.Ledger.
func (l Ledger) Classes() []limiter.ClassInfo { return l.ClassList }

// Dump implements telemetry.Ledger.
func (l Ledger) Dump(_ time.Time, class string, yield func(limiter.Row) bool) {
	for _, r := range l.Rows {
		if (class == "" || r.Class == class) && !yield(r) {
			return
		}
	}
}

// Find implements telemetry.Ledger.
func (l Ledger) Find(_ time.Time, k limiter.Key) (limiter.Row, bool) {
	for _, r := range l.Rows {
		if r.Class == k.Class && r.ID == k.ID {
			return r, true
		}
	}
	return limiter.Row{}, false
}

// NewLedger makes a Ledger of two classes and four keys.
func NewLedger() Ledger {
	return Ledger{
		ClassList: []limiter.ClassInfo{
			{Name: "slash32", Budget: limiter.Budget{CPUs: 0.4, Burst: 30 * time.Second}},
			{Name: "userAgent", Budget: limiter.Budget{CPUs: 0.5, Burst: 2 * time.Minute, Cap: true, Shadow: true}},
		},
		Rows: []limiter.Row{
			{Class: "slash32", ID: "203.0.113.9", Level: -4, Wait: 0.734, CPU: 0.4, Rate: 2, Last: 1},
			{Class: "slash32", ID: "203.0.113.7", Level: 2, Wait: 0, CPU: 0.9, Rate: 9, Last: 8},
			{Class: "userAgent", ID: "", Level: -9, Wait: 3, CPU: 0.1, Rate: 1, Last: 4},
			{Class: "slash32", ID: "203.0.113.8", Level: 3, Wait: 1.5, CPU: 0.2, Rate: 4, Last: 0},
		},
	}
}
