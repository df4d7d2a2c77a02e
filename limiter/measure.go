package limiter

import "time"

// How the room on the ladder follows the CPU use.
const (
	idleBelow = 0.90 // less is used though somebody waits: more may compute
	fullAbove = 0.97 // more is used: fewer would do
	// The room changes by one byPart-th, and by one at least: half of the CPUs are not to
	// stay idle for long where pages wait for a database most of their time.
	byPart = 4
)

// Measure tells the gate what part of the CPUs was used lately, 0 to 1; about
// twice a second. Where pages wait for a database, more of them have to run at a
// time to use the machine: the room grows by a quarter while requests wait for a CPU
// and some are idle, and shrinks as much while they are full. A fixed number stays as
// it is.
func (l *Limiter) Measure(now time.Time, utilisation float64) {
	l.gate.measure(l.since(now), utilisation)
}

func (g *gate) measure(at time.Duration, utilisation float64) {
	g.mu.Lock()
	defer g.unlock()
	g.utilisation = utilisation
	if g.shortUse.pass(at); g.wants(0, level(lightRung)) {
		g.shortUse.now = max(g.shortUse.now, g.busy-g.load.long()+1)
	}
	n := &g.limits
	switch wanted := from(&g.load.computing, 0) >= n.slots && g.wanted(); {
	case n.fixed || g.without(ruleGrows):
	case wanted && utilisation < idleBelow:
		n.slots = min(n.slots+max(1, n.slots/byPart), n.workers)
	case utilisation > fullAbove:
		n.slots = max(n.slots-max(1, n.slots/byPart), n.least)
	}
	g.dispatch(at)
}
