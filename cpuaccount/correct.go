package cpuaccount

import (
	"iter"
	"time"
)

// Charges and measurements also differ by chance; only larger differences count.
const (
	tooMuch   = 1.1  // times what was measured: some of those do not compute
	tooLittle = 1.25 // times what is charged was measured: some compute after all
	slack     = 0.05 // CPUs that are used by others all the time
	// farOff: if less than this part of what was charged is left, requests were wrongly taken to
	// compute. If more is left, that was chance.
	farOff = 0.5
	// full is the used part from which on the CPUs count as full.
	full = 0.97
	// muchMore is how many times as many requests as was thought must want a CPU, of CPUs that are full.
	muchMore = 1.5
)

// Correct compares the charges with the CPU use that was measured since the given time, that of
// the last call. Spans are all those at the backend.
//
// From outside, a page that computes and one that waits, for a database or a long poll's news, look
// alike. Together they cannot have used more than the measured use (the backend's own, if known). What
// they were charged beyond that since the last call is taken back, in the same proportion from each. If
// that was most of it, each is assumed to compute for a correspondingly smaller part of its time from
// now on. Because other requests are there at each call, the charges converge on the requests that
// compute: it is the iteration of Richardson and Lucy (1972, 1974), with one measurement at a time.
// While the CPUs are full, their use shows nothing. But if more requests wanted a CPU, by the time for which the
// backend's processes waited for one, then that many more of the requests that were there all the time
// compute than was thought.
//
// The use of requests with Readings is known: the rest belongs to the others, and only they are
// corrected.
//
// It is called by one goroutine at a time.
func (m *Meter) Correct(now, since time.Time, use Use, spans iter.Seq[*Span]) {
	passed := now.Sub(since).Seconds()
	if passed <= 0 || m.source == Wall {
		return
	}
	present, stayed := 0.0, 0 // CPUs that all are charged with, and how many were there all the time
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

// shownSince returns what the request was charged with since the last time, and
// whether it was at the backend, and not paused, ever since the given time.
func (s *Span) shownSince(now, since time.Time) (more time.Duration, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.going || s.isExact {
		return 0, false
	}
	s.advanceLocked(now)
	more, s.shown = s.cpu-s.shown, s.cpu
	s.lately = more
	return more, s.counts(since)
}

// takeBack leaves the request with a part of what it was charged since the last time, and if that is
// a small one, has it taken to compute in as much less of its time.
func (s *Span) takeBack(part float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.going || s.isExact {
		return
	}
	back := time.Duration(float64(s.lately) * (1 - part))
	s.cpu, s.idle, s.shown, s.lately = s.cpu-back, s.idle+back, s.shown-back, 0
	s.meter.charged.Add(-int64(back))
	if s.pauses == 0 && part < farOff {
		s.weighLocked(s.weight * part)
	}
}

// addWeight changes the weight of a request that was there all the time.
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
