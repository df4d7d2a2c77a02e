package quota

import (
	"context"
	"sync"
	"time"
)

// Store keeps buckets. Its methods may be called concurrently.
type Store interface {
	// Check adds units to a bucket if there is room for them. Each pair of an actor, such as a client, and the
	// name of a rule has its own bucket. Zero units count as one. A negative number takes units out again, as
	// far as they are still there. A store with its own clock ignores now. After an error the state is unknown,
	// and the caller must let the request pass. The zero Bucket lets everything pass.
	Check(ctx context.Context, now time.Time, actor, name string, b Bucket, units int64) (Status, error)
}

// MemoryStore keeps buckets in memory. It implements Store, and its checks never fail.
type MemoryStore struct {
	most int

	mu      sync.Mutex // guards the fields below
	buckets map[memoryKey]memoryBucket
}

type memoryKey struct{ name, actor string }

type memoryBucket struct {
	state   BucketState
	expires int64 // Unix milliseconds
}

// NewMemoryStore makes a MemoryStore for size buckets. If it is full, a new bucket replaces the one of a few
// random buckets that expires first.
func NewMemoryStore(size int) *MemoryStore {
	return &MemoryStore{most: size, buckets: map[memoryKey]memoryBucket{}}
}

// Check implements Store. It doesn't wait, and its error is always nil.
func (m *MemoryStore) Check(_ context.Context, now time.Time, actor, name string, b Bucket, units int64) (Status, error) {
	if !b.Limits() {
		return b.Status(BucketState{}, 0, 0, false), nil
	}
	units = Units(units)
	k := memoryKey{name, actor}
	at := now.UnixMilli()
	m.mu.Lock()
	defer m.mu.Unlock()
	kept, known := m.buckets[k]
	if known && kept.expires < at {
		kept = memoryBucket{}
	}
	after, blocked := b.Take(kept.state, at, units)
	if after != kept.state {
		if !known {
			m.makeRoomLocked(at)
		}
		m.buckets[k] = memoryBucket{state: after, expires: at + b.Lifetime(units)}
	}
	return b.Status(after, at, units, blocked), nil
}

// makeRoomLocked makes room if the store is full. It looks at eight buckets, and forgets the one that expires
// first and all that have expired.
func (m *MemoryStore) makeRoomLocked(at int64) {
	if len(m.buckets) < m.most {
		return
	}
	var first memoryKey
	var expires int64
	looked := 0
	for k, b := range m.buckets { // maps are iterated in random order
		if looked == 0 || b.expires < expires {
			first, expires = k, b.expires
		}
		if b.expires < at {
			delete(m.buckets, k)
		}
		if looked++; looked == 8 {
			break
		}
	}
	delete(m.buckets, first)
}
