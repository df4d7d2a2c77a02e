package account

import "time"

// sampled is how many buckets an eviction looks at. The least deficit of 8 at
// random is nearly always that of a full bucket, whose loss loses nothing.
const sampled = 8

// evictLocked, of a shard that has buckets, forgets the least deficit of a sample. If all of
// the sample are pinned it forgets none: work in flight may exceed the size, by no more than
// there is in flight.
func (s *shard[V]) evictLocked(at time.Duration) {
	var least *Bucket[V]
	var deficit float64
	for seen := 0; seen < sampled; {
		b := s.slots[s.random(len(s.slots))]
		if b == nil {
			continue
		}
		if seen++; b.pins > 0 || b.held > 0 {
			continue
		}
		if d := b.deficitLocked(at); least == nil || d < deficit {
			least, deficit = b, d
		}
		if least != nil && deficit <= 0 {
			break // no other can be less
		}
	}
	if least != nil {
		s.removeLocked(least)
	}
}

// random returns a number below n, by xorshift64 (Marsaglia 2003): sampling
// needs no better, and the state is the shard's own.
func (s *shard[V]) random(n int) int {
	s.rng ^= s.rng << 13
	s.rng ^= s.rng >> 7
	s.rng ^= s.rng << 17
	return int(s.rng % uint64(n)) //nolint:gosec // less than n
}
