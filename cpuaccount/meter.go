package cpuaccount

import (
	"sync/atomic"
	"time"
)

// Source is where the cost of a request is taken from.
type Source uint8

// The sources.
const (
	Corrected Source = iota // wall time, corrected for contention
	Wall                    // raw wall time, as the original has it
	Header                  // told by the backend in CostHeader; corrected where it tells nothing
)

// Meter measures what requests cost a backend. Its methods may be called
// concurrently; requests share nothing but one counter.
type Meter struct {
	source  Source
	cpus    float64
	worker  float64      // least cost in CPU-seconds of a second at the backend; 0: none
	running atomic.Int64 // requests at the backend whose span is not paused
}

// NewMeter makes a meter for a backend that has so many CPUs (more than 0), and
// so many workers. What a backend tells is taken as the cost only if the worker
// that was held meanwhile, of which there are few, is not the greater part of
// what there is: who sleeps in all of them costs as much as who computes
// (dominant resource fairness, Ghodsi et al., NSDI 2011). Zero workers is any
// number of them.
func NewMeter(source Source, cpus, workers float64) *Meter {
	m := &Meter{source: source, cpus: cpus}
	if workers > 0 {
		m.worker = min(1, cpus/workers)
	}
	return m
}

// Running is the number of requests that the backend works on now.
func (m *Meter) Running() int { return int(m.running.Load()) }

// Begin starts the span of a request, which may have been used for one before.
func (m *Meter) Begin(now time.Time, s *Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meter, s.began, s.last = m, now, now
	s.soFar, s.held, s.pauses, s.going = 0, 0, 0, true
	s.running = m.running.Add(1)
}
