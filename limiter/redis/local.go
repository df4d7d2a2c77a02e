package redis

import (
	"hash/maphash"
	"sync"
	"time"
)

const localShards = 16

// Local checks requests against leaky buckets in memory. Its methods may be
// called concurrently.
type Local struct {
	seed   maphash.Seed
	shards [localShards]localShard
}

type localShard struct {
	mu      sync.Mutex // guards the following
	most    int
	buckets map[localKey]localBucket
}

type localKey struct{ name, actor string }

type localBucket struct {
	tally   tally
	expires int64 // Unix milliseconds
}

// NewLocal makes a Local for about size buckets. If there are more, some of those
// that expire first among a few are forgotten.
func NewLocal(size int) *Local {
	l := &Local{seed: maphash.MakeSeed()}
	for i := range l.shards {
		l.shards[i].most = max(1, size/localShards)
		l.shards[i].buckets = map[localKey]localBucket{}
	}
	return l
}

// Check puts units, at least 1, into the bucket that an actor, a client say, has
// for the limit of that name, if they have room. The zero Bucket lets all pass.
func (l *Local) Check(now time.Time, actor, name string, b Bucket, units int64) Info {
	if !b.limits() {
		return b.info(tally{}, 0, 0, false)
	}
	units = min(max(units, 1), most)
	k := localKey{name, actor}
	s := &l.shards[maphash.Comparable(l.seed, k)%localShards]
	at := now.UnixMilli()
	s.mu.Lock()
	defer s.mu.Unlock()
	kept, known := s.buckets[k]
	if known && kept.expires < at {
		kept = localBucket{}
	}
	after, blocked := b.take(kept.tally, at, units)
	if after != kept.tally {
		if !known {
			s.makeRoomLocked(at)
		}
		s.buckets[k] = localBucket{tally: after, expires: at + b.lifetime(units)}
	}
	return b.info(after, at, units, blocked)
}

// makeRoomLocked forgets, if there is no room, the bucket of a few that expires
// first, and all of them that have expired.
func (s *localShard) makeRoomLocked(at int64) {
	if len(s.buckets) < s.most {
		return
	}
	var first localKey
	var expires int64
	looked := 0
	for k, b := range s.buckets { // in random order
		if looked == 0 || b.expires < expires {
			first, expires = k, b.expires
		}
		if b.expires < at {
			delete(s.buckets, k)
		}
		if looked++; looked == 8 {
			break
		}
	}
	delete(s.buckets, first)
}
