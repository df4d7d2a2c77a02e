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
	running atomic.Int64 // requests at the backend whose span is not paused
}

// NewMeter makes a meter for a backend that has so many CPUs (more than 0).
func NewMeter(source Source, cpus float64) *Meter {
	return &Meter{source: source, cpus: cpus}
}

// Running is the number of requests that the backend works on now.
func (m *Meter) Running() int { return int(m.running.Load()) }

// Begin starts the span of a request, which may have been used for one before.
func (m *Meter) Begin(now time.Time, s *Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meter, s.began, s.last = m, now, now
	s.soFar, s.pauses, s.going = 0, 0, true
	s.running = m.running.Add(1)
}
