package cpuaccount

import (
	"math"
	"time"
)

const (
	// alpha is the weight of a new answer if there are many. Until then, all answers have the same weight.
	alpha = 0.05
	// A guess is in doubt if a request costs more than rash times the guess. Requests of the same kind usually
	// differ by less.
	rash = 4
	// A cost below trifle, in seconds, never casts doubt on a guess. Such a cost does no harm, and on a busy server,
	// even a file may take that long.
	trifle = 0.025
)

// beyond reports whether a cost x is far higher than expected. Both are in seconds.
func beyond(x, expected float64) bool { return x > max(rash*expected, trifle) }

// estimate is a moving mean and mean deviation, in seconds.
type estimate struct {
	mean, dev float32
	idle      float32 // mean time for which requests held a worker without computing
	n         uint16  // number of answers
	overran   bool    // the deviation comes from a running request, not from an answer
	several   bool    // there are enough answers, from several clients
}

func (e *estimate) learn(x, idle float64) {
	if e.n < math.MaxUint16 {
		e.n++
	}
	if e.overran { // a deviation from a running request decreases faster
		e.dev /= 2
		e.overran = e.dev > (rash-1)*e.mean
	}
	a := float32(max(alpha, 1/float64(e.n)))
	y := float32(x)
	if e.n > 1 {
		d := y - e.mean
		e.dev += a * (max(d, -d) - e.dev)
	}
	e.mean += a * (y - e.mean)
	e.idle += a * (float32(idle) - e.idle)
}

// atLeast learns the cost of a running request so far, and how long the request was idle. It reports whether the
// cost is far higher than that of the answers.
func (e *estimate) atLeast(x, idle float64) (overruns bool) {
	overruns = e.n > 0 && (beyond(x, e.cost()) || e.overran && x > e.cost())
	e.overran = e.overran || overruns
	switch y := float32(x); {
	case e.n < least:
		e.mean, e.idle = max(e.mean, y), max(e.idle, float32(idle))
	case overruns:
		e.dev = max(e.dev, y-e.mean)
	}
	return overruns
}

// cost returns the mean plus the mean deviation, in seconds.
func (e *estimate) cost() float64 {
	if e.n == 0 && e.mean == 0 {
		return first.Seconds()
	}
	return float64(e.mean) + float64(e.dev)
}

// uncertainty returns a measure that grows with the relative deviation of the answers, and is higher if there
// are few.
func (e *estimate) uncertainty() float32 { return e.dev/(e.mean+1e-3) + 1/float32(e.n) }

// private is the estimate for one client's requests of a kind.
type private struct {
	hash uint64
	at   int64 // time of the latest answer or report of a running request, in Unix milliseconds
	estimate
}

// doubted returns the cost in seconds. If the client's cost is higher than that of others, the result is between
// the two. The fewer and older the client's answers are, the closer the result is to the cost of others.
func (p *private) doubted(at int64, others float64) float64 {
	x, below, trust := p.cost(), others, 1.0 // without answers, the client's cost is only a minimum
	if p.n > 0 {
		below, trust = min(x, others), float64(p.n)/float64(p.n+lean)
	}
	if x <= others {
		return below // the last line would return the same, but needs the exponential
	}
	return below + (x-others)*trust*faded(p.at, at)
}

// faded returns the weight at the time at, between 0 and 1, of an event at since that fades with halfLife.
func faded(since, at int64) float64 {
	if at <= since {
		return 1 // the last line would return the same, but more slowly
	}
	return math.Exp2(-float64(at-since) / float64(halfLife/time.Millisecond))
}
