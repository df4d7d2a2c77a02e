package limiter

import (
	"strings"
	"sync"
	"time"
)

// shard is a hash table of buckets: open addressing with linear probing, and
// deletion by shifting back (Knuth, The Art of Computer Programming 6.4,
// algorithm R). A Go map takes half as much memory again, and can not be
// sampled from evenly.
type shard struct {
	mu    sync.Mutex // guards the following; taken before any bucket's
	all   []*bucket  // in no order
	slots []int32    // places in all, plus 1; 0 is free, as at least half are
	size  int        // most buckets, but for pinned ones
	rng   uint64
	_     [32]byte // a cache line of its own
}

// findLocked returns the bucket of a key, or nil.
func (s *shard) findLocked(k Key, hash uint32) *bucket {
	if len(s.slots) == 0 {
		return nil
	}
	for i := s.home(hash); s.slots[i] != 0; i = s.after(i) {
		if b := s.all[s.slots[i]-1]; b.hash == hash && b.key == k {
			return b
		}
	}
	return nil
}

// addLocked makes the bucket of a key that has none. It copies the key's ID,
// which is cut from a longer string that belongs to the request.
func (s *shard) addLocked(at time.Duration, k Key, hash uint32, budget *budget) *bucket {
	b := newBucket(at, Key{Class: budget.class, ID: strings.Clone(k.ID)}, budget)
	b.hash, b.index = hash, int32(len(s.all)) //nolint:gosec // bounded by the table's size
	s.all = append(s.all, b)
	if 2*len(s.all) <= len(s.slots) {
		s.placeLocked(b)
		return b
	}
	s.slots = make([]int32, max(8, 2*len(s.slots)))
	for _, b := range s.all {
		s.placeLocked(b)
	}
	return b
}

// removeLocked forgets a bucket. The last of all takes its index.
func (s *shard) removeLocked(b *bucket) {
	s.clearLocked(s.slotLocked(b))
	end := len(s.all) - 1
	if last := s.all[end]; last != b {
		s.slots[s.slotLocked(last)] = b.index + 1
		s.all[b.index], last.index = last, b.index
	}
	s.all[end] = nil
	s.all = s.all[:end]
}

func (s *shard) home(hash uint32) int { return int(hash) & (len(s.slots) - 1) }
func (s *shard) after(i int) int      { return (i + 1) & (len(s.slots) - 1) }

func (s *shard) placeLocked(b *bucket) {
	i := s.home(b.hash)
	for s.slots[i] != 0 {
		i = s.after(i)
	}
	s.slots[i] = b.index + 1
}

// slotLocked returns the slot of a bucket that is there.
func (s *shard) slotLocked(b *bucket) int {
	i := s.home(b.hash)
	for s.slots[i] != b.index+1 {
		i = s.after(i)
	}
	return i
}

// clearLocked frees a slot, and closes the gap for those that are beyond it
// because it was taken.
func (s *shard) clearLocked(gap int) {
	for i := s.after(gap); s.slots[i] != 0; i = s.after(i) {
		mask := len(s.slots) - 1
		home := s.home(s.all[s.slots[i]-1].hash)
		if (i-home)&mask >= (i-gap)&mask {
			s.slots[gap] = s.slots[i]
			gap = i
		}
	}
	s.slots[gap] = 0
}

// each calls f with every bucket while the shard is locked.
func (s *shard) each(f func(*bucket)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.all {
		f(b)
	}
}
