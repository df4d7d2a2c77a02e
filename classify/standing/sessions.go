package standing

import "sync"

// session is what is remembered of a client whose cookie came back. Times are Unix
// seconds.
type session struct {
	id      uint32
	values  [valuesOfSession]uint64 // its cookies that were given or came back last, the last one last; 0: none
	names   [valuesOfSession]uint8  // of the cookies, hashed; 0: not known
	home    uint64                  // the address that it counts at, hashed; 0: none yet
	visitor uint64                  // as whom it is remembered, wherever it goes; 0: not yet
	counted int64                   // when it last counted as one of its home's; 0: never
	moves   int64                   // until when its moves are used up, see move
	newer   int32                   // neighbours by use; none: -1
	older   int32
}

const (
	// mostSessions is how many are remembered: 8 MB, and more for the table of their values.
	mostSessions = 1 << 16
	// valuesOfSession is how many cookies of a session are known. Sites that give a
	// new one or two with each answer, to pages that ask for several at once, need
	// more than one; and one client could push others out if there were no bound.
	valuesOfSession = 8
	// valuesOfName is how many of them have the same name, so that one that changes
	// leaves those that do not.
	valuesOfName = 4

	// moveEvery and movesAtOnce bound how often a session changes its address. A
	// phone in a train does it every few minutes, and a few times in a row where it
	// finds no rest. Those who share a cookie have it in turn, one at a time.
	moveEvery   = 2 * 60 // seconds
	movesAtOnce = 4
)

// sessions are those whose cookies came back, by their cookies, as keyed hashes.
// The one that was used least recently makes room. Cookies that were merely given
// are elsewhere (handed.go): who collects them pushes nobody out of here.
type sessions struct {
	mu     sync.Mutex // guards the following
	all    []session
	values map[uint64]int32 // the places of the sessions
	newest int32            // by use; holds if there is any
	oldest int32
}

// find returns the session that a cookie belongs to, and its place.
func (s *sessions) find(value uint64) (place int32, e session, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	place, ok = s.values[value]
	if !ok {
		return 0, e, false
	}
	s.useLocked(place)
	s.all[place].use(value)
	return place, s.all[place], true
}

// with calls f with the session at a place, if it is still there.
func (s *sessions) with(place int32, id uint32, f func(*session)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if int(place) >= len(s.all) || s.all[place].id != id {
		return false
	}
	f(&s.all[place])
	return true
}

// add makes a session, with no cookie yet. Its place is the one of the session
// that was used least recently, when there are too many.
func (s *sessions) add(e session) (place int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values == nil {
		s.values = make(map[uint64]int32)
	}
	if n := len(s.all); n < mostSessions {
		place = int32(n)
		s.all = append(s.all, session{})
		if n == 0 {
			s.newest, s.oldest = place, place
			e.newer, e.older = -1, -1
		} else {
			e.newer, e.older = -1, s.newest
			s.all[s.newest].newer, s.newest = place, place
		}
		s.all[place] = e
		return place
	}
	place = s.oldest
	for _, value := range s.all[place].values {
		if value != 0 {
			delete(s.values, value)
		}
	}
	s.useLocked(place)
	e.newer, e.older = s.all[place].newer, s.all[place].older
	s.all[place] = e
	return place
}

// learn adds a cookie to the session at a place. It tells whether the session is
// still there. A cookie that is another session's stays what it is: who gives the
// same to many gives none that tells them apart.
func (s *sessions) learn(place int32, id uint32, value uint64, name uint8) bool {
	return s.with(place, id, func(e *session) {
		if _, known := s.values[value]; known {
			return
		}
		if old := e.learn(value, name); old != 0 {
			delete(s.values, old)
		}
		s.values[value] = place
	})
}

// learn adds a cookie in the place of the oldest: of those of its name, if there are
// enough, else of all. It returns the one that is forgotten; 0: none.
func (e *session) learn(value uint64, name uint8) (old uint64) {
	out, alike := 0, 0
	for i := valuesOfSession - 1; i >= 0; i-- {
		if name == 0 || e.names[i] != name {
			continue
		}
		if alike++; alike == valuesOfName {
			out = i
		}
	}
	old = e.values[out]
	e.replace(out, value, name)
	return old
}

// use keeps a cookie that came back from being the next to be forgotten.
func (e *session) use(value uint64) {
	for i := range valuesOfSession / 2 {
		if e.values[i] == value {
			e.replace(i, value, e.names[i])
			return
		}
	}
}

// replace takes one cookie out and puts one behind all others.
func (e *session) replace(i int, value uint64, name uint8) {
	copy(e.values[i:], e.values[i+1:])
	copy(e.names[i:], e.names[i+1:])
	e.values[valuesOfSession-1], e.names[valuesOfSession-1] = value, name
}

// useLocked makes the session at a place the one that was used last.
func (s *sessions) useLocked(place int32) {
	if place == s.newest {
		return
	}
	e := &s.all[place]
	s.all[e.newer].older = e.older // there is one, as it is not the newest
	if e.older >= 0 {
		s.all[e.older].newer = e.newer
	} else {
		s.oldest = e.newer
	}
	s.all[s.newest].newer = place
	e.newer, e.older = -1, s.newest
	s.newest = place
}

// each calls f with all sessions, those that were used least recently first.
func (s *sessions) each(f func(*session)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return
	}
	for place := s.oldest; place >= 0; place = s.all[place].newer {
		f(&s.all[place])
	}
}

// mayMove tells whether a session may change its address now.
func (e *session) mayMove(now int64) bool {
	return e.home == 0 || e.moves <= now+(movesAtOnce-1)*moveEvery
}

// move makes an address the session's, and the one before it no longer.
func (e *session) move(now int64, home uint64) {
	if e.home != 0 {
		e.moves = max(e.moves, now) + moveEvery
	}
	e.home, e.counted = home, now
}
