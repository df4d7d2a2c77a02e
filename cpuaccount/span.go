package cpuaccount

import (
	"math"
	"sync"
	"time"
)

// Span is one request's time at the backend. Before Begin and after End
// it measures nothing.
// Its methods may be called concurrently.
type Span struct {
	meter *Meter

	mu     sync.Mutex // guards the following
	began  time.Time
	last   time.Time     // when the following were right
	cpu    time.Duration // CPU time that it is taken to have used
	idle   time.Duration // time without computing, including pauses
	shown  time.Duration // cpu at the last Correct
	lately time.Duration // what it was charged until then since the one before
	crowd  int64         // load of the meter at last
	weight float64       // the part of its time in which it is assumed to compute
	force  float64       // its weight in the competition for CPUs, see Yield
	pauses int
	going  bool // between Begin and End

	// Of cpu:
	told     time.Duration // by the backend
	exact    time.Duration // by Readings, the database's share included
	database time.Duration // by Readings
	ready    time.Duration // time until the last one that it was not queued for a CPU
	isExact  bool          // Readings come: nothing is estimated
	unserved time.Duration // by Readings: it held no worker
	waited   time.Time     // when the last Reading showed that no worker had accepted it; zero: one has
}

// Assume sets the part of its time in which the request is assumed to compute, 0 to 1, until
// Correct finds a better one: the part of similar earlier requests.
func (s *Span) Assume(weight float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.going {
		s.weighLocked(weight)
	}
}

// Pause stops the count of CPU time while the proxy waits for the client. The
// worker is held anyway, and charged. Pauses may overlap; the count goes on
// after as many calls of Resume.
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

// SoFar returns the cost until now. Calling it now and then makes a long request's correction
// finer, because each call takes in the number of requests at the backend.
func (s *Span) SoFar(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.going {
		s.advanceLocked(now)
	}
	return s.costLocked()
}

// End stops the meter and returns the cost. A further call changes nothing.
func (s *Span) End(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.going {
		return s.costLocked()
	}
	s.advanceLocked(now)
	if s.pauses == 0 {
		s.joinLocked(-1)
	}
	s.going = false
	s.sumUpLocked()
	return s.costLocked()
}

// Idle is how long the request has held its worker without computing.
func (s *Span) Idle() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.idle
}

// Computes reports whether the request is taken to compute rather than to wait: for
// a database, an event, a client.
func (s *Span) Computes() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := guessedHalf
	if s.isExact {
		from = half
	}
	return s.weight >= from && s.pauses == 0
}

// Yield sets the force with which the request competes for the CPUs from now on, compared with a process of
// unchanged priority: 0 to 1; it begins with 1. What other, estimated requests could use at the same time
// depends on it.
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

// half is the part of its time from which on a request counts as computing, if it is known when its
// worker was ready to.
const half = 0.5

// guessedHalf is the same if that is estimated: when CPUs are short each request gets a part of one,
// and twenty pages that wait for a database half of their time would look like twenty that compute
// little.
const guessedHalf = 1. / 8

// costLocked is the more expensive of the CPU time and of the part of the workers that
// was held.
func (s *Span) costLocked() time.Duration {
	if s.meter == nil || s.meter.source == Wall {
		return s.cpu
	}
	worker := math.Float64frombits(s.meter.worker.Load())
	return max(s.cpu, time.Duration(float64(s.last.Sub(s.began)-s.unserved)*worker))
}

// joinLocked adds the request to the crowd at the backend, or takes it out.
func (s *Span) joinLocked(n int64) {
	s.meter.running.Add(n)
	s.crowd = s.meter.load.Add(n * s.unitsLocked())
}

// unitsLocked is what the request counts in the meter's load.
func (s *Span) unitsLocked() int64 { return int64(math.Round(s.weight * s.force * unit)) }

// weighLocked changes the part of its time in which the request is assumed to compute.
func (s *Span) weighLocked(weight float64) {
	was := s.unitsLocked()
	s.weight = max(leastWeight, min(weight, 1))
	s.reweighLocked(was)
}

// reweighLocked replaces what the request counted in the meter's load by what it counts now.
func (s *Span) reweighLocked(was int64) {
	if s.pauses == 0 {
		s.crowd = s.meter.load.Add(s.unitsLocked() - was)
	}
}

// leastWeight is the smallest part of its time in which a request is assumed to compute: this
// is never certain, and a factor must be able to grow again.
const leastWeight = 0.02

// advanceLocked adds the time since last, scaled by the crowd of that time: the
// mean of how many there were at both of its ends. An exact integral would need
// a lock that all requests share.
func (s *Span) advanceLocked(now time.Time) {
	passed := now.Sub(s.last)
	if passed <= 0 {
		return
	}
	s.last = now
	if s.isExact {
		return // it is in the next Reading
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
