package cpuaccount

import (
	"sync/atomic"
	"time"
)

// While the CPUs are full their use does not tell who computes: twenty requests that
// waited, and begin to, are charged a tenth of a CPU each, as they fill what was idle, and
// a page next to them is charged a third of its time, of which it had a twentieth. But pages
// whose cost is known tell: they are charged several times of that now, since they take
// as much longer. So many times more than thought compete with them.

const (
	// full is the part of the CPUs from which on they count as full.
	full = 0.97
	// muchDearer is how many times its usual cost is beyond what full caches and pages
	// that differ make of it.
	muchDearer = 1.5
	// enough is the usual cost of those that say so, in CPU-seconds, at least.
	enough = 0.1
	// kept is the part of what they said that counts at the next Correct.
	kept = 0.8
)

// usual holds what some requests were charged with against what the like of them
// usually costs.
type usual struct {
	cost, charged atomic.Int64  // nanoseconds, since the last look
	round         atomic.Uint32 // how often the crowd that they are charged by was corrected by them

	// Of before, fading, in CPU-seconds. The caller of Correct guards them.
	fadedCost, fadedCharged float64
}

// Compare says what a request that has ended usually costs, as far as it is known, and
// hardly waits. It is called once, after End, and counts if the request was estimated, and
// since it began the crowd was not corrected by what others told.
func (s *Span) Compare(cost time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.meter == nil || s.going || s.isExact || s.told > 0 || s.meter.source == Wall {
		return
	}
	if u := &s.meter.usual; s.round == u.round.Load() {
		u.cost.Add(int64(cost))
		u.charged.Add(int64(s.cpu))
	}
}

// dearer is how many times their usual cost requests are charged with; 1: nothing is known.
func (u *usual) dearer() float64 {
	u.fadedCost = kept*u.fadedCost + time.Duration(u.cost.Swap(0)).Seconds()
	u.fadedCharged = kept*u.fadedCharged + time.Duration(u.charged.Swap(0)).Seconds()
	if u.fadedCost < enough {
		return 1
	}
	return u.fadedCharged / u.fadedCost
}

// forget begins again: from now on requests are charged by another crowd.
func (u *usual) forget() {
	u.round.Add(1)
	u.fadedCost, u.fadedCharged = 0, 0
}
