package shadow

import (
	"slices"
	"time"
)

const (
	leaversKept = 64
	fewLeavers  = 8
)

// leavers is after how long those clients left that were the last ones to leave before anybody had accepted
// their requests. Others got no connection at all, so that nobody knows for how long they would have waited: as long
// as these did.
type leavers struct {
	last [leaversKept]time.Duration
	n    int
}

// add takes in a request that is over.
func (l *leavers) add(s *seen) {
	if s.unserved() && s.left > 0 {
		l.last[l.n%leaversKept] = s.left
		l.n++
	}
}

// patience is after how long a request's client would leave a queue; 0: it would not, as far as is known.
func (l *leavers) patience(s *seen) time.Duration {
	if s.left > 0 || !s.unserved() || l.n < fewLeavers {
		return s.left
	}
	all := l.last
	kept := all[:min(l.n, leaversKept)]
	slices.Sort(kept)
	return kept[len(kept)/2]
}

// unserved tells whether it is known that nobody worked on the request.
func (s *seen) unserved() bool { return s.cut && s.used == 0 }
