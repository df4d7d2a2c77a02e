package telemetry

import (
	"sync/atomic"
	"time"
)

// totals counts requests since the start.
type totals struct {
	requests, exempt, delayed, shadowed atomic.Uint64
	malformed                           atomic.Uint64 // not among the requests
	byOutcome                           [outcomes]atomic.Uint64
	cost, delay                         atomic.Int64 // nanoseconds
}

// count takes in a request that is over, and returns how many there have been.
func (t *totals) count(r *Record) uint64 {
	t.byOutcome[r.Outcome].Add(1)
	if r.Who.Exempt {
		t.exempt.Add(1)
	}
	if r.Verdict.Shadow {
		t.shadowed.Add(1)
	}
	if d := r.Delay(); d > 0 {
		t.delayed.Add(1)
		t.delay.Add(int64(d))
	}
	t.cost.Add(int64(r.Cost))
	return t.requests.Add(1)
}

// Malformed counts what was to be a request and is none.
func (j *Journal) Malformed() { j.totals.malformed.Add(1) }

// Counters returns the totals since the start by name.
func (j *Journal) Counters() map[string]uint64 {
	t := &j.totals
	return map[string]uint64{
		"requests":     t.requests.Load(),
		"exempt":       t.exempt.Load(),
		"delayed":      t.delayed.Load(),
		"shadowed":     t.shadowed.Load(),
		"refused":      t.byOutcome[Refused].Load(),
		"clientGone":   t.byOutcome[ClientGone].Load(),
		"backendDown":  t.byOutcome[BackendDown].Load(),
		"backendSlow":  t.byOutcome[BackendSlow].Load(),
		"backendBroke": t.byOutcome[BackendBroke].Load(),
		"redirected":   t.byOutcome[Redirected].Load(),
		"malformed":    t.malformed.Load(),
	}
}

// Series returns the totals as Graphite gets them: the counters, and the sums of
// what requests cost and of how long they were delayed, in seconds.
func (j *Journal) Series() map[string]float64 {
	s := make(map[string]float64)
	for name, n := range j.Counters() {
		s[name] = float64(n)
	}
	s["costSeconds"] = time.Duration(j.totals.cost.Load()).Seconds()
	s["delaySeconds"] = time.Duration(j.totals.delay.Load()).Seconds()
	return s
}
