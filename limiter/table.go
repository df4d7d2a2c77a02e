package limiter

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"time"
)

const maxShards = 64

// table is the bounded store of buckets, sharded so that requests of different
// clients seldom meet at a lock.
//
// When it is full, the bucket with the least deficit of a few sampled ones goes.
// A full bucket is the same as an absent one, so that this loses nothing as
// long as there are idle keys, and nobody washes a debt away by inventing
// clients: each of them would have to run up a greater one.
type table struct {
	seed   maphash.Seed
	policy atomic.Pointer[policy]
	shards []shard
}

// newTable makes a table for about size buckets.
func newTable(size int) *table {
	n := 1
	if size > sampled*maxShards {
		n = maxShards
	} else if size > sampled {
		n = 1 << (bits.Len(uint(size/sampled)) - 1)
	}
	t := &table{seed: maphash.MakeSeed(), shards: make([]shard, n)}
	for i := range t.shards {
		t.shards[i] = shard{size: max(1, size/n), rng: maphash.Bytes(t.seed, []byte{byte(i)}) | 1}
	}
	return t
}

// shard returns the shard of a key, and the hash that the shard knows it by.
func (t *table) shard(k Key) (*shard, uint32) {
	h := maphash.String(t.seed, k.ID)
	return &t.shards[int(h&(maxShards-1))&(len(t.shards)-1)], uint32(h >> 32)
}

// pin returns the bucket of a key, to be unpinned, or nil.
func (t *table) pin(k Key) *bucket {
	s, hash := t.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.findLocked(k, hash)
	if b != nil {
		b.pins.Add(1)
	}
	return b
}

// pinOrMake returns the bucket of a key, to be unpinned, with its whole burst
// if it is new; nil if the policy does not have its class. It keeps a copy of
// the key's text.
func (t *table) pinOrMake(at time.Duration, k Key) *bucket {
	s, hash := t.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.findLocked(k, hash)
	if b == nil {
		// Asked for under the lock, so that no bucket slips by setBudgets.
		budget := t.policy.Load().class(k.Class)
		if budget == nil {
			return nil
		}
		if len(s.all) >= s.size {
			s.evictLocked(at)
		}
		b = s.addLocked(at, k, hash, budget)
	}
	b.pins.Add(1)
	return b
}

// look calls f with the bucket of a key, if there is one.
func (t *table) look(k Key, f func(*bucket)) bool {
	s, hash := t.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.findLocked(k, hash)
	if b != nil {
		f(b)
	}
	return b != nil
}

// setPolicy gives each bucket its new budget.
func (t *table) setPolicy(at time.Duration, p *policy) {
	t.policy.Store(p)
	for i := range t.shards {
		t.shards[i].each(func(b *bucket) {
			if n := p.class(b.key.Class); n != nil {
				b.setBudget(at, n)
			}
		})
	}
}

// len is the number of buckets.
func (t *table) len() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.all)
		s.mu.Unlock()
	}
	return n
}
