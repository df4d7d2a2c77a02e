package redis

import (
	"cmp"
	"math"

	"tempomat/limiter"
)

// rate is the budget of a class in the units that Redis counts in: microseconds
// of the time in which a key earns what it is about.
type rate struct {
	perSecond float64 // a CPU-second is earned in so many microseconds
	burst     int64   // a whole burst is
	most      int64   // a whole burst and the deepest debt are
}

// rates are those of the classes that are shared, by name.
type rates map[string]rate

// mostMicros bounds what a key earns in time: ten years.
const mostMicros = 10 * 365 * 24 * 3600 * 1e6

func newRates(p limiter.Policy) rates {
	memory := cmp.Or(max(0, p.Memory), limiter.DefaultMemory)
	r := rates{}
	for _, c := range p.Classes {
		if c.Budget.External || c.Budget.LocalOnly || !(c.Budget.CPUs > 0) {
			continue
		}
		per := 1e6 / c.Budget.CPUs
		burst := micros(c.Budget.Burst.Seconds() * per)
		r[c.Name] = rate{perSecond: per, burst: burst, most: burst + memory.Microseconds()}
	}
	return r
}

func micros(x float64) int64 { return int64(min(math.Ceil(x), mostMicros)) }
