package cpuaccount

import (
	"math"
	"sync"
	"time"
)

// Span measures one request at the backend, from Begin to End. Its methods may be called
// concurrently.
type Span struct {
	meter *Meter

	mu     sync.Mutex // guards the fields below
	began  time.Time
	last   time.Time     // when cpu, idle and crowd were last updated
	cpu    time.Duration // CPU time that the request is assumed to have used
	idle   time.Duration // time without computing, including pauses
	shown  time.Duration // cpu at the last Correct
	latest time.Duration // the charge between the last two calls of Correct
	crowd  int64         // the meter's load at the time last
	weight float64       // the fraction of its time in which the request is assumed to compute
	force  float64       // its weight in the competition for CPUs, 0 to 1; see Yield
	pauses int
	going  bool // between Begin and End

	told     time.Duration // the part of cpu that the backend reported
	exact    time.Duration // the part of cpu that comes from Readings, including the database's share
	database time.Duration // the part of exact that a database used
	ready    time.Duration // time until the last Reading in which the request didn't wait for a CPU
	isExact  bool          // there are Readings, so nothing is estimated
	unserved time.Duration // time without a worker, from Readings
	waited   time.Time     // time of the last Reading, if no worker had accepted the request; otherwise zero
}

// Assume sets the fraction of its time in which the request is assumed to compute, 0 to 1. The caller derives
// it from similar earlier requests. Correct may change it later.
func (s *Span) Assume(weight float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.going {
		s.weighLocked(weight)
	}
}

// Pause stops counting CPU time while the proxy waits for the client. The request still holds its worker and
// is charged for that. Counting continues once Resume has been called as often as Pause.
func (s *Span) Pause(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.going {
		return
	}
	if s.pauses == 0 {
		s.advanceLocked(now)
		s.joinLocked(-1)
	}
	s.pauses++
}

// Resume ends a Pause.
func (s *Span) Resume(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.going || s.pauses == 0 {
		return
	}
	if s.pauses == 1 {
		s.advanceLocked(now)
		s.joinLocked(1)
	}
	s.pauses--
}

// SoFar returns the cost so far. Calling it from time to time makes the cost of a long request more accurate,
// because each call takes the current number of requests at the backend into account.
func (s *Span) SoFar(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.going {
		s.advanceLocked(now)
	}
	return s.costLocked()
}

// End ends the span. It returns the cost, and how long the request has held its worker without computing. If the
// backend has answered (served), but no worker had accepted the request before the last Reading, the time since that
// Reading is estimated. Later calls change nothing.
func (s *Span) End(now time.Time, served bool) (cost, idle time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.going {
		if served && s.isExact && !s.waited.IsZero() {
			s.loseLocked(now)
		}
		s.advanceLocked(now)
		if s.pauses == 0 {
			s.joinLocked(-1)
		}
		s.going = false
		s.sumUpLocked()
	}
	return s.costLocked(), s.idle
}

// Idle returns how long the request has held its worker without computing so far.
func (s *Span) Idle() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.idle
}

// Computes reports whether the request is assumed to compute, rather than to wait for a database, an event or
// the client. Readings also show the CPU time of a paused request, whose backend may not wait for the client.
func (s *Span) Computes() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isExact {
		return s.weight >= half
	}
	return s.weight >= guessedHalf && s.pauses == 0
}

// Yield sets the force with which the request competes for the CPUs from now on: 0 to 1, where 1 means
// unchanged priority. It also changes the estimates of other requests that run at the same time.
func (s *Span) Yield(force float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.going {
		return
	}
	was := s.unitsLocked()
	s.force = max(0, min(force, 1))
	s.reweighLocked(was)
}

// A request with Readings counts as computing if it computes for at least half of its time.
const half = 0.5

// guessedHalf replaces half for an estimated request. It is smaller, because each request gets only a part of a
// CPU when there are too few CPUs. Otherwise, twenty pages that compute for half of their time would look like
// twenty pages that hardly compute.
const guessedHalf = 1. / 8

// costLocked returns the cost of the CPU time or of the worker, whichever is higher.
func (s *Span) costLocked() time.Duration {
	if s.meter == nil || s.meter.source == Wall {
		return s.cpu
	}
	worker := math.Float64frombits(s.meter.worker.Load())
	return max(s.cpu, time.Duration(float64(s.last.Sub(s.began)-s.unserved)*worker))
}

// joinLocked adds the request to the meter's load if n is 1, and removes it if n is -1.
func (s *Span) joinLocked(n int64) {
	s.meter.running.Add(n)
	s.crowd = s.meter.load.Add(n * s.unitsLocked())
}

// unitsLocked returns the amount that the request adds to the meter's load.
func (s *Span) unitsLocked() int64 { return int64(math.Round(s.weight * s.force * unit)) }

// weighLocked sets the fraction of its time in which the request is assumed to compute.
func (s *Span) weighLocked(weight float64) {
	was := s.unitsLocked()
	s.weight = max(leastWeight, min(weight, 1))
	s.reweighLocked(was)
}

// reweighLocked updates the meter's load. was is the amount that the request added to it before.
func (s *Span) reweighLocked(was int64) {
	if s.pauses == 0 {
		s.crowd = s.meter.load.Add(s.unitsLocked() - was)
	}
}

// leastWeight is the smallest weight. It isn't zero, because Correct multiplies weights, and a weight of zero could
// never grow again.
const leastWeight = 0.02

// advanceLocked adds the time since last, scaled by the load in that time. It uses the mean of the loads at
// both ends, because an exact integral would need a lock that all requests share.
func (s *Span) advanceLocked(now time.Time) {
	passed := now.Sub(s.last)
	if passed <= 0 {
		return
	}
	s.last = now
	if s.isExact {
		return // the next Reading will include this time
	}
	if s.pauses > 0 {
		s.idle += passed
		return
	}
	used := float64(passed)
	if s.meter.source != Wall {
		used *= s.weight
		s.idle += passed - time.Duration(used)
		n := s.meter.load.Load()
		if crowd := float64(s.crowd+n) / (2 * unit); crowd > s.meter.cpus {
			used *= s.meter.cpus / crowd
		}
		s.crowd = n
	}
	s.cpu += time.Duration(used)
	s.meter.charged.Add(int64(used))
}
