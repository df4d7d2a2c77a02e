package cpuaccount

import (
	"math"
	"time"
)

const (
	// alpha is the weight of a new answer once there are many; until then all
	// answers count alike.
	alpha = 0.05
	// rash is the multiple of its guess that a request may cost before the guess is in doubt.
	// Requests that belong to the same kind differ by less.
	rash = 4
	// trifle is the seconds below which no guess is in doubt: it does no harm, and a
	// file that waited for its turn on a busy server takes as long.
	trifle = 0.025
)

// beyond reports whether a cost is far beyond what was expected, in seconds.
func beyond(x, expected float64) bool { return x > max(rash*expected, trifle) }

// estimate is a moving mean and mean deviation, in seconds.
type estimate struct {
	mean, dev float32
	idle      float32 // mean time of holding a worker without computing
	n         uint16  // answers
	overran   bool    // a running request told the deviation, no answer
	several   bool    // they are enough, and of several clients
}

func (e *estimate) learn(x, idle float64) {
	if e.n < math.MaxUint16 {
		e.n++
	}
	if e.overran { // answers take it back faster than one of their own
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

// atLeast takes in what a request that still runs has cost, and how long it was
// idle. It tells whether it costs far more than the answers said.
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

// cost is a little more than the mean, in seconds.
func (e *estimate) cost() float64 {
	if e.n == 0 && e.mean == 0 {
		return first.Seconds()
	}
	return float64(e.mean) + float64(e.dev)
}

// uncertainty is by how much the answers differ, of what they are, and how few they are.
func (e *estimate) uncertainty() float32 { return e.dev/(e.mean+1e-3) + 1/float32(e.n) }

// private is the estimate of one client's requests of a kind.
type private struct {
	hash uint64
	at   int64 // of the latest answer, or of what a running request told, Unix milliseconds
	estimate
}

// doubted is the cost, leaning to that of others where it is above: by how few
// answers it rests on, and by how long ago the latest was.
func (p *private) doubted(at int64, others float64) float64 {
	x, below, trust := p.cost(), others, 1.0 // of one that still runs it is only the least
	if p.n > 0 {
		below, trust = min(x, others), float64(p.n)/float64(p.n+lean)
	}
	if x <= others {
		return below // as below, without the exponential
	}
	return below + (x-others)*trust*faded(p.at, at)
}

// faded is what time leaves of something.
func faded(since, at int64) float64 {
	if at <= since {
		return 1 // as below, and sooner
	}
	return math.Exp2(-float64(at-since) / float64(halfLife/time.Millisecond))
}
