package rdns

import (
	"sync"
	"time"
)

const (
	silentInARow = 3                // questions that nobody answered, until that is told
	toldFor      = 10 * time.Minute // it is not told again before: broken zones of others could have it told all the time
)

// silences notice that nobody answers any more: robots are then verified no more, and
// nothing else shows that.
type silences struct {
	mu   sync.Mutex // guards the following
	tell func(err error)
	row  int
	told bool
	next time.Time // when it may be told again
}

// OnSilence has a function told why nobody answers, and nil when somebody does again. It is
// called before Run.
func (n *Names) OnSilence(tell func(err error)) { n.silences.tell = tell }

// hear takes in how a question ended.
func (s *silences) hear(now time.Time, err error) {
	silent := answerOf(err) == silence
	if !s.take(now, silent) || s.tell == nil {
		return
	}
	if !silent {
		err = nil // that there is no such name is an answer
	}
	s.tell(err)
}

// take counts, and says whether this is to be told.
func (s *silences) take(now time.Time, silent bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !silent {
		told := s.told
		s.row, s.told = 0, false
		return told
	}
	s.row++
	if s.row < silentInARow || s.told || now.Before(s.next) {
		return false
	}
	s.told, s.next = true, now.Add(toldFor)
	return true
}
