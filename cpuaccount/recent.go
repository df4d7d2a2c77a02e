package cpuaccount

import (
	"sync"
	"time"
)

// recentStep is the time between two stored Sums. Growth therefore covers about the last 30 to 60 s.
const recentStep = 30 * time.Second

// Recent keeps earlier Sums of a Meter, to calculate how much they grew recently. The zero value is ready to
// use. Its methods may be called concurrently.
type Recent struct {
	mu     sync.Mutex // guards the fields below
	of     *Meter
	before moment
	last   moment
}

// moment holds the Sums at one time.
type moment struct {
	at   time.Time
	sums Sums
}

// Note stores the Sums of the current Meter. Call it about once a second.
func (r *Recent) Note(now time.Time, m *Meter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.of != m:
		r.of, r.last = m, moment{now, m.Sums()}
		r.before = r.last
	case now.Sub(r.last.at) >= recentStep:
		r.before, r.last = r.last, moment{now, m.Sums()}
	}
}

// Growth returns the recent growth of a Meter's Sums, and the time in which they grew. Both are zero if Note
// hasn't been called with the Meter yet.
func (r *Recent) Growth(now time.Time, m *Meter) (Sums, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of != m {
		return Sums{}, 0
	}
	return m.Sums().minus(r.before.sums), max(0, now.Sub(r.before.at))
}

func (s Sums) minus(o Sums) Sums {
	return Sums{
		Estimated: s.Estimated - o.Estimated, Told: s.Told - o.Told, Process: s.Process - o.Process, Database: s.Database - o.Database,
		Requests: Requests{
			Estimated: s.Requests.Estimated - o.Requests.Estimated, Told: s.Requests.Told - o.Requests.Told, Process: s.Requests.Process - o.Requests.Process,
		},
	}
}
