package account

import (
	"math"
	"time"
)

// State is how a key's account stands at a moment.
type State struct {
	Key     Key
	Level   float64       // CPU-seconds: credit above zero, debt below
	Rate    float64       // CPU-seconds that it earns per second, and
	Burst   float64       // the most that it saves, the factor of SetFactor included
	Charged float64       // CPU-seconds that it was ever charged with, less what was given back
	Paid    time.Duration // until its debt is paid, if it is charged with nothing more
	// Wait is for how many seconds its latest requests were delayed, on average, those
	// included that wait elsewhere now.
	Wait float64
	// CPU, in CPU-seconds per second, and Requests, per second, are what it lately used.
	CPU, Requests float64
	Idle          time.Duration // since it was last used
	// Running are its requests that are charged and wait for nothing, Waiting those that wait
	// for its debt or elsewhere, and Held those requests and responses that are held.
	Running, Waiting, Held int
	Queued                 float64 // CPU-seconds that those that wait for its debt will likely cost
}

func (b *bucket) stateLocked(at time.Duration) State {
	b.refillLocked(at)
	s := State{
		Key: b.Key, Level: b.level, Rate: b.rate(), Burst: b.burst(), Charged: b.total,
		Paid:    b.clears(-b.level),
		Running: int(b.pins - b.waiting - b.elsewhere),
		Waiting: int(b.waiting + b.elsewhere),
		Held:    int(b.held), Queued: b.queued,
	}
	b.used.fill(&s, at)
	if b.elsewhere > 0 { // as if those that wait went now
		s.Wait += (b.waitedLocked(at) - s.Wait) * (1 - math.Pow(1-latest, float64(b.elsewhere)))
	}
	return s
}
