package cpuaccount

import "time"

// Reading is what the kernel counted for a request since its meter began, or a part of that
// which ends a moment ago.
type Reading struct {
	CPU      time.Duration // that its worker used
	Queued   time.Duration // that its worker was ready for a CPU and had none
	Database time.Duration // of the CPU time of a database, its share
	Unserved time.Duration // time before a worker accepted it
	Waits    bool          // no worker has accepted it yet: all of it is Unserved
}

// Measures reports whether the meter makes something of Readings.
func (m *Meter) Measures() bool { return m.source == Process }

// Measured replaces by a Reading what was estimated, from the beginning on. From then on
// nothing is estimated until the next one: time that passes is in the next Reading. More
// than all CPUs could have done in the time is not believed.
func (s *Span) Measured(now time.Time, r Reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.going || !s.meter.Measures() {
		return
	}
	s.last = maxTime(s.last, now)
	took := s.last.Sub(s.began)
	most := time.Duration(float64(took) * s.meter.cpus)
	cpu := min(max(0, r.CPU), most)
	database := min(max(0, r.Database), most-cpu)
	s.meter.charged.Add(int64(cpu + database - s.cpu))
	s.meter.measured.Add(int64(cpu + database - s.exact))
	ready := took - min(took, max(0, r.Queued))
	s.weighLocked(s.tendLocked(cpu, ready))
	s.cpu, s.exact, s.database, s.isExact = cpu+database, cpu+database, database, true
	s.unserved, s.waited = min(took, max(0, r.Unserved)), time.Time{}
	if r.Waits {
		s.unserved, s.waited = took, s.last
	}
	s.idle = max(0, ready-s.cpu-s.unserved)
}

// tends is the time after which most of a request's earlier behaviour no longer counts for
// whether it computes.
const tends = 200 * time.Millisecond

// tendLocked is the part of its recent time in which the request computed, without the time in
// which it was queued for a CPU.
func (s *Span) tendLocked(cpu, ready time.Duration) float64 {
	more, of := cpu-s.cpuReadLocked(), ready-s.ready
	s.ready = ready
	if of <= 0 {
		return s.weight
	}
	now := min(1, max(0, float64(more)/float64(of)))
	if !s.isExact {
		return now
	}
	return s.weight + (now-s.weight)*min(1, float64(of)/float64(tends))
}

// cpuReadLocked is the worker's CPU time at the last Reading; 0: there was none.
func (s *Span) cpuReadLocked() time.Duration {
	if !s.isExact {
		return 0
	}
	return s.exact - s.database
}

// Lost ends the Readings: the worker serves other requests as well, or isn't one. What was read
// stays, and the rest is estimated.
func (s *Span) Lost(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.going && s.isExact {
		s.loseLocked(now)
	}
}

// Served notes that the backend has answered. If no worker had accepted the request at the last Reading,
// the time since is estimated.
func (s *Span) Served(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.going && s.isExact && !s.waited.IsZero() {
		s.loseLocked(now)
	}
}

func (s *Span) loseLocked(now time.Time) {
	s.isExact, s.shown = false, s.cpu
	was := s.unitsLocked()
	s.force = 1 // an unknown process isn't known to yield
	s.reweighLocked(was)
	if s.waited.IsZero() {
		s.last = maxTime(s.last, now)
		return
	}
	s.last, s.waited = s.waited, time.Time{} // it was accepted at some time since
	s.weighLocked(1)                         // that it waited says nothing of how it computes
	s.advanceLocked(now)
}

func maxTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// CPU is the CPU time until now that the request is taken to have used.
func (s *Span) CPU(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.going {
		s.advanceLocked(now)
	}
	return s.cpu
}

// Sums is the CPU time charged to requests that have ended, by its source.
type Sums struct {
	Estimated time.Duration // from the time that they took
	Told      time.Duration // by the backend, in CostHeader
	Process   time.Duration // of their workers, counted by the kernel
	Database  time.Duration // of a database, counted by the kernel, by their shares
	Requests  Requests      // how many they are, each where most of its cost is
}

// Requests counts requests by what their cost is known from.
type Requests struct {
	Estimated, Told, Process uint64
}

// Sums returns what it has charged since it was made. It only grows.
func (m *Meter) Sums() Sums {
	return Sums{
		Estimated: time.Duration(m.sums[byEstimate].Load()), Told: time.Duration(m.sums[byHeader].Load()),
		Process: time.Duration(m.sums[byProcess].Load()), Database: time.Duration(m.sums[byDatabase].Load()),
		Requests: Requests{Estimated: m.requests[byEstimate].Load(), Told: m.requests[byHeader].Load(), Process: m.requests[byProcess].Load()},
	}
}

// The sums of a Meter.
const (
	byEstimate = iota
	byHeader
	byProcess
	byDatabase
	sums
)

// sumUpLocked adds a request that ends.
func (s *Span) sumUpLocked() {
	m := s.meter
	m.requests[s.mostlyLocked()].Add(1)
	for by, d := range [sums]time.Duration{
		byEstimate: s.cpu - s.told - s.exact, byHeader: s.told, byProcess: s.exact - s.database, byDatabase: s.database,
	} {
		if d > 0 {
			m.sums[by].Add(int64(d))
		}
	}
}

// mostlyLocked is what the most of the request's cost is known from: one of byEstimate, byHeader
// and byProcess. A database's share is in what its worker told.
func (s *Span) mostlyLocked() int {
	estimated := s.cpu - s.told - s.exact
	switch {
	case s.told > max(estimated, s.exact):
		return byHeader
	case s.exact > estimated, s.isExact && s.exact == estimated: // nothing was used, and that is known
		return byProcess
	default:
		return byEstimate
	}
}
