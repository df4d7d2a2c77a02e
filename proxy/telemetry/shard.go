package telemetry

import "sync"

// mostLately is how many requests a shard keeps until they are counted. What counts them is
// cold after a request, as the kernel has passed its bytes on meanwhile: to count many at a
// time takes a tenth of the time.
const mostLately = 64

// shard is a part of the requests: those that ended on some CPU. What each of them writes
// comes first, and close together.
type shard struct {
	mu     sync.Mutex // guards the following
	n      int
	ahead  [kinds]int32        // requests of a kind that pass before the next one is looked at
	lately [mostLately]Counted // the first n are not in groups yet

	groups  [Groups]groupCounts
	samples [kinds]sample
	_       [64]byte
}

// passesLocked tells whether others stand for a request of that kind, as they do for most of a
// flood.
func (s *shard) passesLocked(kind int) bool {
	s.ahead[kind]--
	return s.ahead[kind] >= 0
}

// nextLocked is where the request that does not pass is to be kept, nil if it is not.
func (s *shard) nextLocked(kind int) *Entry {
	e := s.samples[kind].next()
	s.ahead[kind] = int32(s.samples[kind].gap) //nolint:gosec // a row is not longer than the requests of a moment
	return e
}

// take appends what is kept of all kinds, and begins anew.
func (s *shard) take(to []Entry) []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	for kind := range s.samples {
		to = s.samples[kind].take(to, int(s.ahead[kind]))
		s.ahead[kind] = 0
	}
	return to
}
