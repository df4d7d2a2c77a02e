package cpuaccount

import (
	"iter"
	"time"
)

// Charges and measurements also differ by chance, so only large differences are corrected.
const (
	tooMuch   = 1.1  // if the charges exceed the measured use by more than this factor, some requests don't compute
	tooLittle = 1.25 // if the measured use exceeds the charges by more than this factor, more requests compute
	slack     = 0.05 // number of CPUs that other programs are assumed to use all the time
	// If the measured use is a smaller fraction of the charges than farOff, requests were wrongly assumed to
	// compute. A larger fraction may be due to chance.
	farOff = 0.5
	// full is the utilisation above which the CPUs count as full.
	full = 0.97
	// If the CPUs are full, the assumptions are corrected only if muchMore times as many requests want a CPU.
	muchMore = 1.5
)

// Correct compares the charges with the CPU use that was measured since the last call. spans are the spans of
// all requests at the backend.
//
// A page that computes can't be distinguished from one that waits for a database, or from a long poll that
// waits for news. Together they can't have used more than the measured CPU time: the backend's own, if known. If
// they were charged more since the last call, each request keeps only a fraction of its charge, so the charges
// add up to the measured use. If that fraction is small, each request is also assumed to compute for a
// correspondingly smaller part of its time from now on. Each call sees a different set of requests, so over
// time the charges converge on the requests that compute. This is the iteration of Richardson and Lucy (1972,
// 1974), with one measurement at a time.
//
// While the CPUs are full, their use doesn't show how many requests compute. In that case, the time for which
// the backend's processes waited for a CPU shows how many requests wanted one. If this number is much higher than
// assumed, the requests that were present all the time get a larger weight.
//
// The use of requests with Readings is known, so it is subtracted, and only the others are corrected.
//
// Only one goroutine at a time may call Correct.
func (m *Meter) Correct(now, since time.Time, use Use, spans iter.Seq[*Span]) {
	passed := now.Sub(since).Seconds()
	if passed <= 0 || m.source == Wall {
		return
	}
	present, stayed := 0.0, 0 // CPUs charged to all spans, and how many spans were present all the time
	for s := range spans {
		more, all := s.shownSince(now, since)
		present += more.Seconds() / passed
		if all {
			stayed++
		}
	}
	total, exact := m.charged.Load(), m.measured.Load()
	known := time.Duration(exact-m.lookedExact).Seconds() / passed
	charged := time.Duration(total-m.looked).Seconds()/passed - known
	m.looked, m.lookedExact = total, exact
	used := use.CPUs * m.cpus
	if use.Own >= 0 {
		used = use.Own / passed
	}
	used = max(0, used-known)
	crowd, wanted := max(slack, float64(m.load.Load())/unit), used+known+use.Lacked/passed
	switch most := used*tooMuch + slack; {
	case present > most:
		for s := range spans {
			s.takeBack(most / present)
		}
		m.looked = m.charged.Load()
	case stayed == 0:
	case use.CPUs >= full && use.Lacked >= 0 && wanted > muchMore*crowd:
		for s := range spans {
			s.addWeight(since, (wanted-crowd)/float64(stayed))
		}
	case used > charged*tooLittle+slack:
		for s := range spans {
			s.addWeight(since, (used-charged)/float64(stayed))
		}
	}
}

// shownSince returns the request's charge since the last Correct. all is true if the request was at the backend
// all the time and isn't paused.
func (s *Span) shownSince(now, since time.Time) (more time.Duration, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.going || s.isExact {
		return 0, false
	}
	s.advanceLocked(now)
	more, s.shown = s.cpu-s.shown, s.cpu
	s.latest = more
	return more, s.counts(since)
}

// takeBack reduces the request's charge since the last Correct to a fraction. If the fraction is small, it
// also reduces the request's weight.
func (s *Span) takeBack(part float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.going || s.isExact {
		return
	}
	back := time.Duration(float64(s.latest) * (1 - part))
	s.cpu, s.idle, s.shown, s.latest = s.cpu-back, s.idle+back, s.shown-back, 0
	s.meter.charged.Add(-int64(back))
	if s.pauses == 0 && part < farOff {
		s.weighLocked(s.weight * part)
	}
}

// addWeight increases the weight of a request that was present all the time.
func (s *Span) addWeight(since time.Time, more float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.going && s.counts(since) {
		s.weighLocked(s.weight + more)
	}
}

func (s *Span) counts(since time.Time) bool {
	return s.pauses == 0 && !s.isExact && !s.began.After(since)
}
