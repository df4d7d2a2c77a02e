// Package feedtest makes what a Feed gives, for tests of those who take it.
package feedtest

import (
	"time"

	"tempomat/proxy/telemetry"
)

// BatchOf is the Batch of requests that each stand for as many as their weight says.
func BatchOf(entries ...telemetry.Entry) *telemetry.Batch {
	b := &telemetry.Batch{Entries: entries}
	for i := range entries {
		e := &entries[i]
		s := &b.Sums[e.Group]
		times := func(d time.Duration) time.Duration { return time.Duration(float64(d) * e.Weight) }
		s.Requests += int(e.Weight)
		s.Cost += times(e.Cost)
		s.Told += times(e.Told)
		s.ToldWasted += times(e.ToldWasted)
		if e.Orphan {
			s.Wasted += times(e.Cost)
		}
		switch e.Outcome {
		case telemetry.Answered, telemetry.BackendDown, telemetry.BackendSlow, telemetry.BackendBroke:
			s.Backend.Requests += int(e.Weight)
		default:
		}
		switch e.Outcome {
		case telemetry.BackendDown:
			s.Backend.Down += int(e.Weight)
		case telemetry.Refused:
			s.Refused += int(e.Weight)
		case telemetry.Redirected:
			s.Redirected += int(e.Weight)
		default:
		}
	}
	return b
}
