package quota

import (
	"context"
	"hash/maphash"
	"sync"
	"time"
)

// Store keeps buckets. Its methods may be called concurrently.
type Store interface {
	// Check puts units, at least 1, into the bucket that an actor, a client say, has for
	// the rule of that name, if they have room. Units below 0 are taken out again, as far as they
	// are still there. A store with a clock of its own does not
	// go by now. After an error nothing is known, and the caller lets the request pass. The
	// zero Bucket lets all pass.
	Check(ctx context.Context, now time.Time, actor, name string, b Bucket, units int64) (Status, error)
}

const memoryShards = 16

// MemoryStore keeps buckets in memory. It is a Store, and its checks never fail.
type MemoryStore struct {
	seed   maphash.Seed
	shards [memoryShards]memoryShard
}

type memoryShard struct {
	mu      sync.Mutex // guards the following
	most    int
	buckets map[memoryKey]memoryBucket
}

type memoryKey struct{ name, actor string }

type memoryBucket struct {
	state   BucketState
	expires int64 // Unix milliseconds
}

// NewMemoryStore makes a MemoryStore for about size buckets. For one more, another one is
// forgotten: of a few at random the one that expires first.
func NewMemoryStore(size int) *MemoryStore {
	m := &MemoryStore{seed: maphash.MakeSeed()}
	for i := range m.shards {
		m.shards[i].most = max(1, size/memoryShards)
		m.shards[i].buckets = map[memoryKey]memoryBucket{}
	}
	return m
}

// Check implements Store. It waits for nothing, and the error is nil.
func (m *MemoryStore) Check(_ context.Context, now time.Time, actor, name string, b Bucket, units int64) (Status, error) {
	if !b.Limits() {
		return b.Status(BucketState{}, 0, 0, false), nil
	}
	units = Units(units)
	k := memoryKey{name, actor}
	s := &m.shards[maphash.Comparable(m.seed, k)%memoryShards]
	at := now.UnixMilli()
	s.mu.Lock()
	defer s.mu.Unlock()
	kept, known := s.buckets[k]
	if known && kept.expires < at {
		kept = memoryBucket{}
	}
	after, blocked := b.Take(kept.state, at, units)
	if after != kept.state {
		if !known {
			s.makeRoomLocked(at)
		}
		s.buckets[k] = memoryBucket{state: after, expires: at + b.Lifetime(units)}
	}
	return b.Status(after, at, units, blocked), nil
}

// makeRoomLocked forgets, if there is no room, the bucket of a few that expires
// first, and all of them that have expired.
func (s *memoryShard) makeRoomLocked(at int64) {
	if len(s.buckets) < s.most {
		return
	}
	var first memoryKey
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
