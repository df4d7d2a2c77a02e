package cpuaccount

import (
	"sync/atomic"
	"time"
)

// While the CPUs are full, their use does not show which requests compute: twenty requests that
// waited and begin to compute are charged a tenth of a CPU each, because they fill what was
// idle, and a page next to them is charged a third of its time although it had a twentieth.
// Pages of known cost do show it: they are now charged several times their cost, because they
// take that much longer. So that many times more requests than assumed compete with them.

const (
	// full is the used part from which on the CPUs count as full.
	full = 0.97
	// muchDearer is how many times its usual cost is beyond what full caches and pages
	// that differ make of it.
	muchDearer = 1.5
	// enough is the usual cost of those that say so, in CPU-seconds, at least.
	enough = 0.1
	// kept is the part of what they said that counts at the next Correct.
	kept = 0.8
)

// usual compares what some requests were charged with what similar ones usually cost.
type usual struct {
	cost, charged atomic.Int64  // nanoseconds, since the last look
	round         atomic.Uint32 // how often the crowd that they are charged by was corrected by them

	// Of before, fading, in CPU-seconds. The caller of Correct guards them.
	fadedCost, fadedCharged float64
}

// Compare takes in what a request that has ended usually costs, if that is known and the
// request waits little. It is called once, after End, and counts if the request was estimated
// and no other comparison corrected the meter since it began.
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

// dearer is how many times their usual cost requests are charged; 1: unknown.
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
