package limiter

import (
	"math"
	"time"
)

// recent is the time constant of the rates that the doctor shows.
const recent = 30 * time.Second

// average is the lately of a key. Rates decay exponentially with time, so that
// a key that falls silent sinks on the doctor's table; the wait is an average
// over requests, as it is a property of each.
type average struct {
	last      time.Duration // of the latest request
	wait      float32       // s
	cpu, reqs float32       // CPU-s/s and requests/s at last
}

func (a *average) decay(at time.Duration) float32 {
	if at <= a.last {
		return 1
	}
	return float32(math.Exp(-float64(at-a.last) / float64(recent)))
}

// note takes in a request that is over.
func (a *average) note(at time.Duration, cost float64, wait time.Duration) {
	d := a.decay(at)
	a.cpu = a.cpu*d + float32(cost/recent.Seconds())
	a.reqs = a.reqs*d + float32(1/recent.Seconds())
	a.wait += (float32(wait.Seconds()) - a.wait) / 10
	a.last = max(a.last, at)
}

func (a *average) fill(r *Row, at time.Duration) {
	d := a.decay(at)
	r.Wait = float64(a.wait)
	r.CPU, r.Rate = float64(a.cpu*d), float64(a.reqs*d)
	r.Last = max(0, (at - a.last).Seconds())
}
