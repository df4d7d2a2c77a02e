package cpuaccount

import (
	"iter"
	"time"
)

// What is charged and what was measured differ by chance as well; only what is
// beyond that counts.
const (
	tooMuch   = 1.1  // times what was measured: some of those do not compute
	tooLittle = 1.25 // times what is charged was measured: some compute after all
	slack     = 0.05 // CPUs that are used by others all the time
)

// Correct holds what was charged against the CPU use that was measured since the
// given time, which is that of the last call. Spans are all those at the backend.
//
// From outside a page that computes and one that waits, for a database or for
// news that a long poll is to bring, look alike. Together they cannot have used
// more than was used. So of those that were at the backend all the time, each is
// taken to compute in a smaller part of its time, all in the same proportion;
// those that came and went meanwhile are given the benefit of being what the CPUs
// were used for. As the sets change from one call to the next, the parts come to
// those that the use is explained by: the iteration is that of Richardson and
// Lucy (1972, 1974), with one measurement at a time. While the CPUs are full
// nothing can be told from their use; but if requests of a known cost, see Compare, are
// charged several times of it, as many more compute than was thought, of those that
// were there all the time.
//
// What was used by those whose Readings come is known: the rest is the others', and only
// they are corrected.
//
// It is called by one goroutine at a time.
func (m *Meter) Correct(now, since time.Time, use Use, spans iter.Seq[*Span]) {
	passed := now.Sub(since).Seconds()
	if passed <= 0 || m.source == Wall {
		return
	}
	stayed, n := 0.0, 0 // CPUs that those are charged with who were there all the time, and their number
	for s := range spans {
		if more, all := s.shownSince(now, since); all {
			stayed += more.Seconds() / passed
			n++
		}
	}
	total, exact := m.charged.Load(), m.measured.Load()
	known := time.Duration(exact-m.lookedExact).Seconds() / passed
	charged := time.Duration(total-m.looked).Seconds()/passed - known
	m.looked, m.lookedExact = total, exact
	used := max(0, use.CPUs*m.cpus-known)
	dearer := m.usual.dearer()
	switch {
	case n == 0:
	case use.CPUs >= full && dearer > muchDearer:
		more := float64(m.load.Load()) / unit * (dearer - 1)
		for s := range spans {
			s.scale(since, 1, more/float64(n))
		}
		m.usual.forget()
	case stayed > used*tooMuch+slack:
		for s := range spans {
			s.scale(since, (used+slack)/stayed, 0)
		}
	case used > charged*tooLittle+slack:
		for s := range spans {
			s.scale(since, 1, (used-charged)/float64(n))
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
	return more, s.counts(since)
}

// scale changes the weight of a request that was there all the time.
func (s *Span) scale(since time.Time, times, more float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.going && s.counts(since) {
		s.weighLocked(s.weight*times + more)
	}
}

func (s *Span) counts(since time.Time) bool {
	return s.pauses == 0 && !s.isExact && !s.began.After(since)
}
