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

// lookup finds the bucket of a reservation's key, if it is known, and pins it. It
// returns how the key stands. If it owes nothing, and reserve is set, the guess
// is charged at the same time, so that the usual request locks each key once.
func (t *table) lookup(at time.Duration, k Key, s *reservation, guess float64, reserve bool) (d debt) {
	shard, hash := t.shard(k)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	b := shard.findLocked(k, hash)
	if b == nil {
		return debt{}
	}
	b.pins++
	s.bucket = b
	d = debt{b, b.budget, b.debtLocked(at)}
	s.external, s.localOnly, s.workers, s.externalUntil = b.budget.external, b.budget.localOnly, b.budget.workers, at+d.wait
	if reserve && !d.matters() {
		s.reserveLocked(at, guess)
	}
	return d
}

// enter pins the bucket of a reservation's key, made if need be, with its whole burst.
// The reservation stays empty if the policy does not have the class.
func (t *table) enter(at time.Duration, k Key, s *reservation) {
	t.with(at, k, func(b *bucket) {
		b.pins++
		s.bucket, s.external, s.localOnly, s.workers = b, b.budget.external, b.budget.localOnly, b.budget.workers
	})
}

// with calls f with the bucket of a key, locked, and made if need be; not at
// all if the policy does not have the class.
func (t *table) with(at time.Duration, k Key, f func(*bucket)) {
	s, hash := t.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.findLocked(k, hash)
	if b == nil {
		// Asked for under the lock, so that no bucket slips by setPolicy.
		budget := t.policy.Load().class(k.Class)
		if budget == nil {
			return
		}
		if s.n >= s.size {
			s.evictLocked(at)
		}
		b = s.addLocked(at, k, hash, budget)
	}
	f(b)
}

// look calls f with the bucket of a key, locked, if there is one.
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
				b.setBudgetLocked(at, n)
			}
		})
	}
}

// len is the number of buckets.
func (t *table) len() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += s.n
		s.mu.Unlock()
	}
	return n
}
