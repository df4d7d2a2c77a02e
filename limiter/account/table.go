package account

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"time"
)

const maxShards = 64

// Table is the bounded store of buckets, sharded so that requests of different
// clients seldom meet at a lock. Its methods may be called concurrently.
//
// When it is full, the bucket with the least deficit of a few sampled ones goes.
// A full bucket is the same as an absent one, so that this loses nothing as
// long as there are idle keys, and nobody washes a debt away by inventing
// clients: each of them would have to run up a greater one.
type Table[V any] struct {
	seed   maphash.Seed
	terms  atomic.Pointer[[]*Terms]
	shards []shard[V]
}

// New makes a table for about size buckets, which is of no class yet.
func New[V any](size int) *Table[V] {
	n := 1
	if size > sampled*maxShards {
		n = maxShards
	} else if size > sampled {
		n = 1 << (bits.Len(uint(size/sampled)) - 1)
	}
	t := &Table[V]{seed: maphash.MakeSeed(), shards: make([]shard[V], n)}
	t.terms.Store(new([]*Terms))
	for i := range t.shards {
		t.shards[i] = shard[V]{size: max(1, size/n), rng: maphash.Bytes(t.seed, []byte{byte(i)}) | 1}
	}
	return t
}

// shard returns the shard of a key, and the hash that the shard knows it by.
func (t *Table[V]) shard(k Key) (*shard[V], uint32) {
	h := maphash.String(t.seed, k.ID)
	return &t.shards[int(h&(maxShards-1))&(len(t.shards)-1)], uint32(h >> 32)
}

// Lookup makes the reservation of a key, if that is known, pins its bucket, and returns how
// long another request would have to wait for the key. If that is for no time, or no concern
// of the class, and reserve is set, x CPU-seconds are charged at the same time, so that the
// usual request locks each key once.
func (t *Table[V]) Lookup(at time.Duration, k Key, r *Reservation[V], x float64, reserve bool) (owes time.Duration) {
	s, hash := t.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.findLocked(k, hash)
	if b == nil {
		return 0
	}
	b.pins++
	owes = b.debtLocked(at)
	r.Bucket, r.Terms, r.Until = b, b.terms, at+owes
	if reserve && !b.terms.Concerns(owes) {
		r.reserveLocked(at, x)
	}
	return owes
}

// Enter makes the reservation of a key that Lookup did not find, and its bucket if need be,
// which has its whole burst, and pins it. The reservation stays empty if there are no terms
// for the key's class.
func (t *Table[V]) Enter(at time.Duration, k Key, r *Reservation[V]) {
	t.with(at, k, func(b *Bucket[V]) {
		b.pins++
		r.Bucket, r.Terms = b, b.terms
	})
}

// with calls f with the bucket of a key, locked, and made if need be; not at
// all if there are no terms for its class.
func (t *Table[V]) with(at time.Duration, k Key, f func(*Bucket[V])) {
	s, hash := t.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.findLocked(k, hash)
	if b == nil {
		// Asked for under the lock, so that no bucket slips by SetTerms.
		terms := t.Terms(k.Class)
		if terms == nil {
			return
		}
		if s.n >= s.size {
			s.evictLocked(at)
		}
		b = s.addLocked(at, k, hash, terms)
	}
	f(b)
}

// look calls f with the bucket of a key, locked, if there is one.
func (t *Table[V]) look(k Key, f func(*Bucket[V])) bool {
	s, hash := t.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.findLocked(k, hash)
	if b != nil {
		f(b)
	}
	return b != nil
}

// Terms returns the terms of a class; nil: there are none. There are few classes, and equal names
// mostly share their bytes, so that looking at each beats a map.
func (t *Table[V]) Terms(class string) *Terms {
	for _, x := range *t.terms.Load() {
		if x.Class == class {
			return x
		}
	}
	return nil
}

// SetTerms has the classes go on with these terms, a few of them. A key keeps its level, cut
// to the new burst, and what it earned until now it earned at the old rate. Keys of classes
// that are gone stay as they are until they are evicted.
func (t *Table[V]) SetTerms(at time.Duration, all []*Terms) {
	t.terms.Store(&all)
	for i := range t.shards {
		t.shards[i].each(func(b *Bucket[V]) {
			if n := t.Terms(b.Key.Class); n != nil {
				b.setTermsLocked(at, n)
			}
		})
	}
}

// Len is the number of buckets.
func (t *Table[V]) Len() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += s.n
		s.mu.Unlock()
	}
	return n
}
