package cpuaccount

import (
	"sync"
	"time"
)

// Span is one request's time at the backend. Before Begin and after End
// it measures nothing.
// Its methods may be called concurrently.
type Span struct {
	meter *Meter

	mu      sync.Mutex // guards the following
	began   time.Time
	last    time.Time // when soFar was right
	soFar   time.Duration
	held    time.Duration // time that a worker was held, pauses left out
	running int64         // requests at the backend at last
	pauses  int
	going   bool // between Begin and End
}

// Pause stops the meter while the proxy waits for the client. Pauses may
// overlap; the meter runs on after as many calls of Resume.
func (s *Span) Pause(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.going {
		return
	}
	if s.pauses++; s.pauses == 1 {
		s.advanceLocked(now)
		s.meter.running.Add(-1)
	}
}

// Resume ends a Pause.
func (s *Span) Resume(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.going || s.pauses == 0 {
		return
	}
	if s.pauses--; s.pauses == 0 {
		s.last = now
		s.running = s.meter.running.Add(1)
	}
}

// SoFar returns the cost until now. Calling it now and then makes a long
// request's correction finer, as the crowd at the backend is looked at.
func (s *Span) SoFar(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.going && s.pauses == 0 {
		s.advanceLocked(now)
	}
	return s.soFar
}

// End stops the meter and returns the cost. A further call changes nothing.
func (s *Span) End(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.going {
		return s.soFar
	}
	s.going = false
	if s.pauses == 0 {
		s.advanceLocked(now)
		s.meter.running.Add(-1)
	}
	return s.soFar
}

// advanceLocked adds the time since last, scaled by the crowd of that time: the
// mean of how many there were at both of its ends. An exact integral would need
// a lock that all requests share.
func (s *Span) advanceLocked(now time.Time) {
	passed := now.Sub(s.last)
	if passed <= 0 {
		return
	}
	s.last = now
	s.held += passed
	if s.meter.source != Wall {
		n := s.meter.running.Load()
		if crowd := float64(s.running+n) / 2; crowd > s.meter.cpus {
			passed = time.Duration(float64(passed) * s.meter.cpus / crowd)
		}
		s.running = n
	}
	s.soFar += passed
}
