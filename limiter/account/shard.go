package account

import (
	"strings"
	"sync"
	"time"
)

// shard is a hash table of buckets: open addressing with linear probing, and
// deletion by shifting back (Knuth, The Art of Computer Programming 6.4,
// algorithm R). A Go map takes half as much memory again, and can not be
// sampled from evenly.
type shard[V any] struct {
	mu    sync.Mutex   // guards the following, and the buckets
	slots []*Bucket[V] // a power of two, at least half of them free
	n     int          // buckets
	size  int          // most of them, but for pinned ones
	rng   uint64
	_     [32]byte // a cache line of its own
}

// findLocked returns the bucket of a key, or nil.
func (s *shard[V]) findLocked(k Key, hash uint32) *Bucket[V] {
	if s.n == 0 {
		return nil
	}
	for i := s.home(hash); ; i = s.after(i) {
		if b := s.slots[i]; b == nil || b.hash == hash && b.Key == k {
			return b
		}
	}
}

// addLocked makes the bucket of a key that has none. It copies the key's ID,
// which is cut from a longer string that belongs to the request.
func (s *shard[V]) addLocked(at time.Duration, k Key, hash uint32, t *Terms) *Bucket[V] {
	b := &Bucket[V]{bucket: makeBucket(at, Key{Class: t.Class, ID: strings.Clone(k.ID)}, t)}
	b.hash, b.lock = hash, &s.mu
	s.n++
	if 2*s.n > len(s.slots) {
		old := s.slots
		s.slots = make([]*Bucket[V], max(8, 2*len(old)))
		for _, b := range old {
			if b != nil {
				s.placeLocked(b)
			}
		}
	}
	s.placeLocked(b)
	return b
}

func (s *shard[V]) home(hash uint32) int { return int(hash) & (len(s.slots) - 1) }
func (s *shard[V]) after(i int) int      { return (i + 1) & (len(s.slots) - 1) }

func (s *shard[V]) placeLocked(b *Bucket[V]) {
	i := s.home(b.hash)
	for s.slots[i] != nil {
		i = s.after(i)
	}
	s.slots[i] = b
}

// removeLocked forgets a bucket, and closes the gap for those that are beyond
// it because it was there.
func (s *shard[V]) removeLocked(b *Bucket[V]) {
	gap := s.home(b.hash)
	for s.slots[gap] != b {
		gap = s.after(gap)
	}
	for i := s.after(gap); s.slots[i] != nil; i = s.after(i) {
		mask := len(s.slots) - 1
		if home := s.home(s.slots[i].hash); (i-home)&mask >= (i-gap)&mask {
			s.slots[gap] = s.slots[i]
			gap = i
		}
	}
	s.slots[gap] = nil
	s.n--
}

// each calls f with every bucket while the shard is locked.
func (s *shard[V]) each(f func(*Bucket[V])) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.slots {
		if b != nil {
			f(b)
		}
	}
}
