package account

import (
	"math"
	"time"
)

// recent is the time constant of the rates that the doctor shows.
const recent = 30 * time.Second

// latest is the weight of a request in the average wait, once there were some.
const (
	latest     = 0.1
	mostLatest = 10
)

// average is what a key lately used. Rates decay exponentially with time, so that
// a key that falls silent sinks on the doctor's table; the wait is an average
// over requests, as it is a property of each.
type average struct {
	last      time.Duration // of the latest request
	wait      float32       // s
	n         uint8         // requests that wait is of, up to mostLatest
	cpu, reqs float32       // CPU-s/s and requests/s at last
}

func (a *average) decay(at time.Duration) float32 {
	x := float64(at-a.last) / float64(recent)
	switch {
	case x <= 0:
		return 1
	case x < 1./16: // a busy key: three terms of the series are exact enough
		return float32(1 - x*(1-x*(1./2-x/6)))
	}
	return float32(math.Exp(-x))
}

// note takes in a request that is over and was delayed for wait seconds.
func (a *average) note(at time.Duration, cost float64, wait float32) {
	d := a.decay(at)
	a.cpu = a.cpu*d + float32(cost/recent.Seconds())
	a.reqs = a.reqs*d + float32(1/recent.Seconds())
	a.n = min(a.n+1, mostLatest)
	a.wait += (wait - a.wait) / float32(a.n)
	a.last = max(a.last, at)
}

func (a *average) fill(s *State, at time.Duration) {
	d := a.decay(at)
	s.Wait = float64(a.wait)
	s.CPU, s.Requests = float64(a.cpu*d), float64(a.reqs*d)
	s.Idle = max(0, at-a.last)
}
