package limiter

import "time"

// How the number of heavy slots follows the CPU use.
const (
	idleBelow = 0.90 // less is used though heavy requests wait: one slot more
	fullAbove = 0.97 // more is used: one less would do
	quietAt   = 0.50 // no more is used: there is room for strangers
)

// Measure tells the gate what part of the CPUs was used lately, 0 to 1; about
// twice a second. Where pages wait for a database, more of them have to run at a
// time to use the machine: the number of heavy slots rises by one while heavy
// requests wait and CPUs are idle, and falls by one while they are full. A fixed
// number stays as it is.
func (l *Limiter) Measure(now time.Time, utilisation float64) {
	release(l.gate.measure(l.since(now), utilisation))
}

func (g *gate) measure(at time.Duration, utilisation float64) (decided *Ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.utilisation = utilisation
	n := &g.limits
	switch wanted := g.heavyBusy >= n.heavy && g.wanted(); {
	case n.fixed:
	case wanted && utilisation < idleBelow && n.heavy < n.long:
		n.heavy++
	case utilisation > fullAbove && n.heavy > n.least:
		n.heavy--
	}
	return g.pump(at)
}

// quiet tells whether much of the CPUs was last measured to be idle.
func (g *gate) quiet() bool { return g.utilisation >= 0 && g.utilisation <= quietAt }
