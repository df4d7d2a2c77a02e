package replay

import (
	"slices"
	"time"

	"tempomat/limiter"
)

// How shares are proposed.
//
// A key owes nothing as long as what it uses is covered by what it earns, its share of
// the CPUs, and by the burst that it has saved up. So for each key its account is kept
// as it would be with each of some shares, and its need is the least of these with
// which it never owed anything: with that, nothing that it did was ever delayed for
// its own sake.
//
// Usual clients are those keys of the first class, the addresses, that asked at least
// usualRequests times, mostly as browsers by their User-Agents that were no strangers to
// the gate, and are not among the few with the greatest need: one in fewIn, and at least
// one. The share that is proposed
// for addresses is the greatest need of a usual one. Of the coarser classes, networks
// and User-Agents, only that is counted what clients asked for that were usual so far,
// so that a crawler's use makes nobody's share; and the share that is proposed is the
// greatest need of all keys.
//
// What counts is what was asked for, whatever the replay made of it.
const (
	usualRequests = 5
	fewIn         = 50
)

// ladder are the shares that are tried.
func ladder() [rungs]float64 {
	return [rungs]float64{0.01, 0.02, 0.03, 0.05, 0.075, 0.10, 0.15, 0.20, 0.25, 0.35, 0.50, 0.70, 1}
}

// rungs is how many shares are tried. A need of rungs is beyond the whole machine.
const rungs = 13

// accounts are those of one key, one for each share that is tried, in CPU-seconds.
// What owed once is not looked at any more.
type accounts struct {
	level [rungs]float32
	need  uint8 // the least share that never owed, as an index
	last  time.Duration
}

// open begins with the whole burst, as the limiter does.
func (a *accounts) open(now time.Duration, burst float32) {
	a.need, a.last = 0, now
	for i := range a.level {
		a.level[i] = burst
	}
}

// charge takes a cost, in CPU-seconds, out of all of them.
func (a *accounts) charge(now time.Duration, cost float64, rates *[rungs]float32, burst float32) {
	passed := float32((now - a.last).Seconds())
	a.last = now
	for i := a.need; i < rungs; i++ {
		a.level[i] = min(burst, a.level[i]+rates[i]*passed) - float32(cost)
	}
	for a.need < rungs && a.level[a.need] < 0 {
		a.need++
	}
}

// needs is how many keys of a class have which need.
type needs [rungs + 1]int

func (n *needs) total() (sum int) {
	for _, x := range n {
		sum += x
	}
	return sum
}

// most is the greatest need, a number of keys left out that have more.
func (n *needs) most(out int) int {
	for i := rungs; i > 0; i-- {
		if out -= n[i]; out < 0 {
			return i
		}
	}
	return 0
}

// usual is the greatest need of a usual client.
func (n *needs) usual() int { return n.most(max(1, n.total()/fewIn)) }

// rates are what the shares of the ladder earn, in CPU-seconds per second.
func rates(cpus float64) (r [rungs]float32) {
	for i, share := range ladder() {
		r[i] = float32(share * cpus)
	}
	return r
}

// rungOf is the first share of the ladder that is not below one; rungs-1 at most.
func rungOf(share float64) int {
	all := ladder()
	i, _ := slices.BinarySearch(all[:], share-1e-9)
	return min(i, rungs-1)
}

// shareOf is that of a need.
func shareOf(need int) float64 {
	all := ladder()
	return all[min(need, rungs-1)]
}

// proposal is what is proposed for a class.
func (c *class) proposal(info limiter.ClassInfo, cpus float64, first bool) Share {
	n := c.needs
	s := Share{Class: info.Name, Now: info.Budget.CPUs / cpus, Keys: n.total()}
	if s.Keys == 0 {
		s.Proposed = s.Now
		return s
	}
	most := n.most(0)
	if first {
		most = n.usual()
	}
	s.Proposed, s.Half, s.Most = shareOf(most), shareOf(n.most(s.Keys/2)), shareOf(n.most(0))
	s.Beyond = n[rungs]
	now := rungOf(s.Now)
	for need, keys := range n {
		if need > now {
			s.OweNow += keys
		}
		if need > most {
			s.OweThen += keys
		}
	}
	return s
}
