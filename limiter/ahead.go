package limiter

import (
	"math"
	"time"
)

// Who had more than its share leaves room to those who had not.

// wantsRung tells whether somebody waits who would compute on a rung.
func (s *site) wantsRung(r rung) bool {
	return !s.queues[r].empty() || r == unknownRung && !s.queues[fresh].empty()
}

// competes tells whether the head of a lane may take part in the ladder now. One
// that nobody knows, and that may not hold a worker as a dear one, keeps its place if
// it may soon be tried: nobody would wake it as the pause after the last one ends.
func (g *gate) competes(at time.Duration, t *Ticket) bool {
	if t.level == fresh && !g.mayHold(t, false) && g.mayHold(t, true) {
		return false
	}
	return g.leaves(at, t)
}

// use is how much CPU some requests have lately used.
type use struct {
	sum float64 // CPU-seconds, fading
	at  time.Duration
}

// usedFor is how long what was used counts, in seconds.
const usedFor = 10.0

func (u *use) add(at time.Duration, x float64) {
	u.fade(at)
	u.sum += x
}

func (u *use) fade(at time.Duration) {
	if at > u.at {
		u.sum *= math.Exp(-(at - u.at).Seconds() / usedFor)
		u.at = at
	}
}

// below tells whether the rate is below some CPU-seconds per second.
func (u *use) below(at time.Duration, rate float64) bool {
	most := rate * usedFor
	if passed := (at - u.at).Seconds(); u.sum < most || u.sum*(1-passed/usedFor) >= most {
		return u.sum < most // exp(-x) is not below 1-x
	}
	return u.rate(at) < rate
}

// rate is in CPU-seconds per second.
func (u *use) rate(at time.Duration) float64 {
	u.fade(at)
	return u.sum / usedFor
}

// leaves tells whether a long request leaves enough of the CPUs to those who are
// within their share, if its client is ahead of its own: once there, it takes its
// part for seconds, however many come then. As many may compute as CPUs are left by
// what the others lately used, rounded; somewhat more while a CPU is idle, and one more
// if its client has waited for its share. What is much longer than it does not count, as on
// the ladder: where a few exports compute for a minute, who waits for them gives up. And where
// more that are longer compute than the ladder lets go, as they seemed to wait, it leaves nobody less.
func (g *gate) leaves(at time.Duration, t *Ticket) bool {
	r := t.level.rung()
	if r <= passRung || !t.ahead || !t.level.computes() || g.without(ruleLeaves) {
		return true
	}
	cpus, last := g.ranking.cpus, r+1
	if g.without(ruleLeavesLonger) {
		last = rungs - 1
	}
	more := 0.0
	if g.utilisation >= 0 && g.utilisation < idleBelow { // the room has grown, and CPUs are idle still
		more = float64(g.limits.n - g.limits.least)
	}
	switch {
	case g.without(ruleLeavesMore):
	case (t.flow.virtualTime-t.applied-t.site.clock.systemVirtualTime)*t.flow.share <= aheadFrom:
		more++
	case float64(from(&g.load.computing, 0)) < cpus:
		more += max(0, 1-longPart/cpus)
	}
	if t.sure && beyondLadder(&g.load.ahead, r+1, g.limits.n) > 0 && !g.without(ruleLeavesBeyond) {
		return true
	}
	return float64(upTo(&g.load.ahead, passRung+1, last))+min(0.5, 1/cpus) <= cpus-g.within.rate(at)+more
}

// longPart is what one more long request takes of an idle moment: of few CPUs a great
// part, for seconds.
const longPart = 1.5
