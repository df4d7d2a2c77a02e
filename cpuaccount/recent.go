package cpuaccount

import (
	"sync"
	"time"
)

const (
	// recentStep is the time between two Sums that are kept.
	recentStep = 10 * time.Second
	// recentSteps is how many are kept: Lately is of the last 60 to 70 s.
	recentSteps = 7
)

// Recent keeps what a Meter's Sums were, to tell what they grew by recently. The zero value is
// ready. Its methods may be called concurrently.
type Recent struct {
	mu   sync.Mutex // guards the following
	kept []moment   // the oldest first
}

// moment is what the Sums were at a time.
type moment struct {
	at   time.Time
	sums Sums
}

// Note takes in what the Sums are now. It is to be called each second or so.
func (r *Recent) Note(now time.Time, s Sums) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch n := len(r.kept); {
	case n > 0 && !r.kept[n-1].sums.isBefore(s): // another Meter's
		r.kept = r.kept[:0]
	case n > 0 && now.Sub(r.kept[n-1].at) < recentStep:
		return
	case n == recentSteps:
		r.kept = r.kept[:copy(r.kept, r.kept[1:])]
	}
	r.kept = append(r.kept, moment{now, s})
}

// Lately is what the Sums grew by, up to s, and in what time; nothing in no time, if nothing
// was noted or the Meter is another one since.
func (r *Recent) Lately(now time.Time, s Sums) (Sums, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.kept) == 0 || !r.kept[0].sums.isBefore(s) { // the last one may be newer than s by now
		return Sums{}, 0
	}
	first := r.kept[0]
	return s.minus(first.sums), max(0, now.Sub(first.at))
}

// isBefore reports whether the Sums may have grown to those.
func (s Sums) isBefore(later Sums) bool {
	return s.Estimated <= later.Estimated && s.Told <= later.Told && s.Process <= later.Process && s.Database <= later.Database &&
		s.Requests.Estimated <= later.Requests.Estimated && s.Requests.Told <= later.Requests.Told && s.Requests.Process <= later.Requests.Process
}

func (s Sums) minus(o Sums) Sums {
	return Sums{
		Estimated: s.Estimated - o.Estimated, Told: s.Told - o.Told, Process: s.Process - o.Process, Database: s.Database - o.Database,
		Requests: Requests{
			Estimated: s.Requests.Estimated - o.Requests.Estimated, Told: s.Requests.Told - o.Requests.Told, Process: s.Requests.Process - o.Requests.Process,
		},
	}
}
