package proxy

import (
	"math/rand/v2"
	"sync"
)

const runningShards = 16

// running is the set of exchanges that are at the backend, sharded so that
// requests seldom meet at a lock.
type running struct {
	shards [runningShards]struct {
		mu  sync.Mutex
		set map[*exchange]struct{}
		_   [40]byte // a cache line of its own
	}
}

func newRunning() *running {
	r := &running{}
	for i := range r.shards {
		r.shards[i].set = make(map[*exchange]struct{})
	}
	return r
}

func (r *running) add(x *exchange) {
	x.shard = rand.IntN(runningShards) //nolint:gosec // any spread will do
	s := &r.shards[x.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set[x] = struct{}{}
}

func (r *running) remove(x *exchange) {
	s := &r.shards[x.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.set, x)
}

func (r *running) each(f func(*exchange)) {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		for x := range s.set {
			f(x)
		}
		s.mu.Unlock()
	}
}
