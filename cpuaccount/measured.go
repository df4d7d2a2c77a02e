package cpuaccount

import "time"

// Reading contains the times that the kernel has counted for a request since its span began. It may be slightly old.
type Reading struct {
	CPU      time.Duration // CPU time of its worker
	Queued   time.Duration // how long its worker waited for a CPU
	Database time.Duration // its share of a database's CPU time
	Unserved time.Duration // how long it waited until a worker accepted it
	Waits    bool          // no worker has accepted it yet, so all of its time is Unserved
}

// Measures reports whether the meter uses Readings.
func (m *Meter) Measures() bool { return m.source == Process }

// Measured replaces the whole estimate with a Reading. Until the next Reading, nothing is estimated, because that
// Reading will include the time until then. The cost is limited to the CPU time of all CPUs since Begin.
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

// tends is the time after which a request's earlier behaviour has almost no influence on its weight.
const tends = 200 * time.Millisecond

// tendLocked returns the fraction of its recent time in which the request computed, not counting the time in
// which it waited for a CPU.
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

// cpuReadLocked returns the worker's CPU time in the last Reading, or 0 if there was none.
func (s *Span) cpuReadLocked() time.Duration {
	if !s.isExact {
		return 0
	}
	return s.exact - s.database
}

// Lost ends the Readings, because the process also serves other requests or isn't a worker. The measured part
// is kept, and the rest is estimated.
func (s *Span) Lost(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.going && s.isExact {
		s.loseLocked(now)
	}
}

func (s *Span) loseLocked(now time.Time) {
	s.isExact, s.shown = false, s.cpu
	was := s.unitsLocked()
	s.force = 1 // the priority of an unknown process may be normal
	s.reweighLocked(was)
	if s.waited.IsZero() {
		s.last = maxTime(s.last, now)
		return
	}
	s.last, s.waited = s.waited, time.Time{} // a worker accepted the request some time after the last Reading
	s.weighLocked(1)                         // the request's wait doesn't show how much it computes
	s.advanceLocked(now)
}

func maxTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// CPU returns the CPU time that the request is assumed to have used so far.
func (s *Span) CPU(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.going {
		s.advanceLocked(now)
	}
	return s.cpu
}

// Sums is the CPU time charged to requests that have ended, by source.
type Sums struct {
	Estimated time.Duration // from the time that the requests took
	Told      time.Duration // as reported by the backend in CostHeader
	Process   time.Duration // of workers, counted by the kernel
	Database  time.Duration // of databases, counted by the kernel
	Requests  Requests      // number of requests, by the source of most of their cost
}

// Requests counts requests by the source of their cost.
type Requests struct {
	Estimated, Told, Process uint64
}

// Sums returns the CPU time that the meter has charged since it was made. The sums never decrease.
func (m *Meter) Sums() Sums {
	return Sums{
		Estimated: time.Duration(m.sums[byEstimate].Load()), Told: time.Duration(m.sums[byHeader].Load()),
		Process: time.Duration(m.sums[byProcess].Load()), Database: time.Duration(m.sums[byDatabase].Load()),
		Requests: Requests{Estimated: m.requests[byEstimate].Load(), Told: m.requests[byHeader].Load(), Process: m.requests[byProcess].Load()},
	}
}

// Indices of a Meter's sums and requests.
const (
	byEstimate = iota
	byHeader
	byProcess
	byDatabase
	sums
)

// sumUpLocked adds a request that ends to the meter's sums.
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

// mostlyLocked returns the source of most of the request's cost: byEstimate, byHeader or byProcess. A
// database's CPU time counts as byProcess.
func (s *Span) mostlyLocked() int {
	estimated := s.cpu - s.told - s.exact
	switch {
	case s.told > max(estimated, s.exact):
		return byHeader
	case s.exact > estimated, s.isExact && s.exact == estimated: // no CPU time was used, according to a Reading
		return byProcess
	default:
		return byEstimate
	}
}
