package telemetry

import "math/rand/v2"

// sample keeps some of any number of requests, each of them with the same probability. It
// takes them in rows, of which it keeps one by chance: whoever asks in turn for several pages
// is not always met at the same one.
type sample struct {
	most    int
	entries []Entry
	seen    int // requests, but for those of the gap that have passed
	stride  int // length of a row
	rest    int // of the row, after the one that is kept
	gap     int // how many pass before the next one is looked at
}

// next is where the request after the gap is to be kept, nil if it is not.
func (s *sample) next() (e *Entry) {
	s.seen += s.gap + 1
	keeps := true
	if len(s.entries) == s.most {
		s.thin()
		keeps = rand.IntN(2) == 0 //nolint:gosec // nothing secret
	}
	if keeps {
		if s.entries == nil {
			s.entries = make([]Entry, 0, s.most)
		}
		s.entries = s.entries[:len(s.entries)+1]
		e = &s.entries[len(s.entries)-1]
	}
	row := max(1, s.stride)
	at := rand.IntN(row) //nolint:gosec // nothing secret
	s.gap, s.rest = s.rest+at, row-1-at
	return e
}

// thin gives up one of each two that follow each other.
func (s *sample) thin() {
	for i := range s.most / 2 {
		s.entries[i] = s.entries[2*i+rand.IntN(2)] //nolint:gosec // nothing secret
	}
	s.entries = s.entries[:s.most/2]
	s.stride, s.rest = 2*max(1, s.stride), 0
}

// take appends what is kept, which stands for all that were seen, and begins anew. So many are
// left of the gap.
func (s *sample) take(to []Entry, left int) []Entry {
	s.seen += s.gap - left
	if s.seen == 0 {
		return to
	}
	from := len(to)
	to = append(to, s.entries...)
	for i := range to[from:] {
		to[from+i].Weight = float64(s.seen) / float64(len(s.entries))
	}
	clear(s.entries[:cap(s.entries)]) // or the strings would stay alive
	s.entries, s.seen, s.stride, s.rest, s.gap = s.entries[:0], 0, 1, 0, 0
	return to
}
