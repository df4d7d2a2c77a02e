package cpuaccount

import (
	"math"
	"sync/atomic"
	"time"
)

// Source is the method by which the cost of requests is determined.
type Source uint8

// The sources.
const (
	Corrected Source = iota // wall time, corrected for contention and by the measured CPU use
	Wall                    // raw wall time, as in the original tempomat
	Header                  // reported by the backend in CostHeader; otherwise corrected
	Process                 // measured at the worker's process; corrected if the process is unknown
)

// Meter measures the cost of requests to a backend. Its methods may be called concurrently. Requests share only a
// few counters.
type Meter struct {
	source  Source
	cpus    float64
	worker  atomic.Uint64 // bits of a float64: the cost of holding a worker for a second, in CPU-seconds
	running atomic.Int64  // requests at the backend whose spans aren't paused
	load    atomic.Int64  // the sum of the fractions of a CPU that these requests want, in 1/unit
	charged atomic.Int64  // CPU time charged to all spans since the start, in nanoseconds
	// measured is the part of charged that comes from Readings.
	measured atomic.Int64
	sums     [sums]atomic.Int64
	requests [byDatabase]atomic.Uint64 // by the source of most of their cost

	looked      int64 // charged at the last Correct; only Correct uses it
	lookedExact int64 // measured at the last Correct; only Correct uses it
}

// unit is the amount that a request that computes all the time adds to a Meter's load.
const unit = 1 << 10

// NewMeter makes a meter for a backend with the given number of CPUs (more than 0).
func NewMeter(source Source, cpus float64) *Meter { return &Meter{source: source, cpus: cpus} }

// SetWorkers sets the number of the backend's workers. Requests that hold all workers cost as much as requests
// that compute on all CPUs (dominant resource fairness, Ghodsi et al., NSDI 2011). If the number is zero, which is
// the initial value, holding a worker costs nothing.
func (m *Meter) SetWorkers(workers float64) {
	worker := 0.0
	if workers > 0 {
		worker = min(1, m.cpus/workers)
	}
	m.worker.Store(math.Float64bits(worker))
}

// Running returns the number of requests at the backend, not counting paused ones.
func (m *Meter) Running() int { return int(m.running.Load()) }

// Begin starts the span of a request. The span may have been used for an earlier request. The request is
// assumed to compute all the time unless Assume sets a different weight.
func (m *Meter) Begin(now time.Time, s *Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meter, s.began, s.last = m, now, now
	s.latest = 0
	s.cpu, s.idle, s.shown, s.pauses, s.going, s.weight, s.force = 0, 0, 0, 0, true, 1, 1
	s.told, s.exact, s.database, s.ready, s.unserved, s.isExact = 0, 0, 0, 0, 0, false
	s.waited = time.Time{}
	m.running.Add(1)
	s.crowd = m.load.Add(unit)
}
