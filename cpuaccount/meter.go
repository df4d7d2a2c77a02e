package cpuaccount

import (
	"math"
	"sync/atomic"
	"time"
)

// Source is where the cost of a request is taken from.
type Source uint8

// The sources.
const (
	Corrected Source = iota // wall time, corrected for contention and by the measured CPU use
	Wall                    // raw wall time, as in the original
	Header                  // told by the backend in CostHeader; corrected where it tells nothing
	Process                 // measured at the worker's process; corrected where that is not known
)

// Meter measures what requests cost a backend. Its methods may be called
// concurrently; requests share nothing but some counters.
type Meter struct {
	source  Source
	cpus    float64
	worker  atomic.Uint64 // the bits of the least cost in CPU-seconds of a second at the backend; 0: none
	running atomic.Int64  // requests at the backend whose span is not paused
	load    atomic.Int64  // the same, each as the part of a CPU that it asks for, in 1/unit
	charged atomic.Int64  // CPU time that all spans together were charged since the start, nanoseconds
	// measured is the part of charged that is known by Readings.
	measured atomic.Int64
	sums     [sums]atomic.Int64
	requests [byDatabase]atomic.Uint64 // by what most of their cost is known from

	looked      int64 // charged at the last Correct, whose caller guards it
	lookedExact int64 // measured at the last Correct
}

// unit is what a request that computes all the time counts in a Meter's load.
const unit = 1 << 10

// NewMeter makes a meter for a backend that has so many CPUs (more than 0), and
// so many workers; see SetWorkers.
func NewMeter(source Source, cpus, workers float64) *Meter {
	m := &Meter{source: source, cpus: cpus}
	m.SetWorkers(workers)
	return m
}

// SetWorkers sets how many workers the backend has, from now on. A request is charged at least
// its part of them: requests that sleep in all workers cost as much as requests that compute on
// all CPUs (dominant resource fairness, Ghodsi et al., NSDI 2011). Zero means any number:
// holding one costs nothing.
func (m *Meter) SetWorkers(workers float64) {
	worker := 0.0
	if workers > 0 {
		worker = min(1, m.cpus/workers)
	}
	m.worker.Store(math.Float64bits(worker))
}

// Running is the number of requests that the backend works on now, without those whose span
// is paused.
func (m *Meter) Running() int { return int(m.running.Load()) }

// Begin starts the span of a request, which may have been used for one before.
// It is taken to compute all the time, unless Assume says otherwise.
func (m *Meter) Begin(now time.Time, s *Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meter, s.began, s.last = m, now, now
	s.lately = 0
	s.cpu, s.idle, s.shown, s.pauses, s.going, s.weight, s.force = 0, 0, 0, 0, true, 1, 1
	s.told, s.exact, s.database, s.ready, s.unserved, s.isExact = 0, 0, 0, 0, 0, false
	s.waited = time.Time{}
	m.running.Add(1)
	s.crowd = m.load.Add(unit)
}
