package cpuaccount

import (
	"math"
	"time"
)

// alpha is the weight of a new answer once there are many; until then all
// answers count alike.
const alpha = 0.05

// estimate is a moving mean and mean deviation, in seconds.
type estimate struct {
	mean, dev float32
	idle      float32 // mean of the time in which a worker was held without computing
	n         uint32  // answers
}

func (e *estimate) learn(x, idle float64) {
	if e.n < math.MaxUint32 {
		e.n++
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

// cost is a little more than the mean, in seconds.
func (e estimate) cost() float64 {
	if e.n == 0 && e.mean == 0 {
		return first.Seconds()
	}
	return float64(e.mean) + float64(e.dev)
}

// doubt is by how much the answers differ, of what they are, and how few they are.
func (e estimate) doubt() float64 {
	return float64(e.dev)/(float64(e.mean)+1e-3) + 1/float64(e.n)
}

// private is the estimate of one client's requests of a kind.
type private struct {
	hash uint64
	at   int64 // of the latest answer, or of what a running request told, Unix milliseconds
	estimate
}

// doubted is the cost, leaning to that of others where it is above: by how few
// answers it rests on, and by how long ago the latest was.
func (p private) doubted(at int64, others float64) float64 {
	x := p.cost()
	switch {
	case p.n == 0 && x <= others: // of one that still runs it is only the least
		return others
	case x <= others:
		return x
	}
	trust := 1.0
	if p.n > 0 {
		trust = float64(p.n) / float64(p.n+lean)
	}
	return others + (x-others)*trust*p.fresh(at)
}

// fresh is what is left of the trust in it, by how long ago the latest answer was.
func (p private) fresh(at int64) float64 {
	if at <= p.at {
		return 1
	}
	return math.Exp2(-float64(at-p.at) / float64(halfLife/time.Millisecond))
}
