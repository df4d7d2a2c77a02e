package telemetry

import (
	"time"

	"tempomat/limiter"
)

// Totals are what Counts counted since the start, by group where that is known.
type Totals struct {
	Requests  [Groups][Outcomes]uint64
	Refused   [Groups][Refusals]uint64
	Delayed   [Groups]uint64
	Shadowed  [Groups]uint64        // that would have been delayed or refused, and were not
	Cost      [Groups]time.Duration // CPU time
	Wasted    [Groups]time.Duration // of that, for clients that had left
	Delay     [Groups]time.Duration // how long they were delayed, all together
	Malformed uint64                // what was to be a request and is none; not among the requests
	Classes   []ClassTotals         // in configured order
	Limits    []LimitTotals         // in configured order
}

// ClassTotals are the requests that a class was to blame for.
type ClassTotals struct {
	Name                       string
	Delayed, Refused, Shadowed uint64
}

// LimitTotals are the requests of a request limit.
type LimitTotals struct {
	Name              string
	Matched           uint64 // that it is for
	Refused, Shadowed uint64 // of them, that were too many
}

// All is how many requests there were.
func (t *Totals) All() (n uint64) {
	for o := range Outcomes {
		n += t.Ended(Outcome(o))
	}
	return n
}

// Ended is how many requests ended so.
func (t *Totals) Ended(o Outcome) (n uint64) {
	for g := range Groups {
		n += t.Requests[g][o]
	}
	return n
}

// Refusal is why a request was refused.
type Refusal uint8

// The refusals: the limiter's reasons, then others.
const (
	Unsound   = Refusal(limiter.None)     // it is no request of HTTP; the limiter was not asked
	OverLimit = Refusal(limiter.Busy) + 1 // of a request limit
)

// Refusals is how many there are.
const Refusals = int(OverLimit) + 1

func (r Refusal) String() string {
	switch r {
	case Unsound:
		return "unsound"
	case OverLimit:
		return "limit"
	}
	return limiter.Reason(r).String()
}

// Refusal is why it was refused, if it was.
func (r *Record) Refusal() Refusal {
	if r.Limit != "" {
		return OverLimit
	}
	return Refusal(r.Verdict.Reason)
}
