package classify

import "sync"

// session is what a cookie's value belongs to.
type session struct {
	id     uint32
	proven bool // the value, or an earlier one of the session, came back
}

const (
	sessionShards = 16
	// perGeneration is how many values a shard gives room in each of its two
	// generations: 131072 in all.
	perGeneration = 4096
)

// sessions are the cookie values that the site gave, as keyed hashes, and to
// which session each belongs. Two generations rotate: what is asked for lives
// on, what is not is forgotten when as many others have come.
type sessions struct {
	shards [sessionShards]sessionShard
}

type sessionShard struct {
	mu       sync.Mutex // guards the following
	now, old map[uint64]session
}

// find returns the session of a value, if the site gave it.
func (s *sessions) find(value uint64) (session, bool) {
	sh := &s.shards[value%sessionShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e, ok := sh.now[value]; ok {
		return e, true
	}
	e, ok := sh.old[value]
	if ok {
		sh.putLocked(value, e)
	}
	return e, ok
}

func (s *sessions) put(value uint64, e session) {
	sh := &s.shards[value%sessionShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.putLocked(value, e)
}

func (s *sessionShard) putLocked(value uint64, e session) {
	if s.now == nil || len(s.now) >= perGeneration {
		s.old, s.now = s.now, make(map[uint64]session)
	}
	s.now[value] = e
}

// each calls f with all values, the older ones first.
func (s *sessions) each(f func(value uint64, e session)) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for _, generation := range []map[uint64]session{sh.old, sh.now} {
			for value, e := range generation {
				f(value, e)
			}
		}
		sh.mu.Unlock()
	}
}
