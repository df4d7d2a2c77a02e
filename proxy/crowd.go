package proxy

import (
	"math/rand/v2"
	"sync"
	"time"
)

const crowdShards = 16

// crowd is a set of exchanges, those that wait or those at the backend: lists through the
// exchanges themselves, sharded so that requests seldom meet at a lock.
type crowd struct {
	shards [crowdShards]crowdShard
}

type crowdShard struct {
	mu   sync.Mutex // guards the following, and the links of its exchanges
	head *exchange
	_    [48]byte // a cache line of its own
}

// link is an exchange's place in a list.
type link struct {
	list       *crowdShard // nil: in none
	next, prev *exchange
}

func (r *crowd) add(x *exchange) {
	s := &r.shards[rand.IntN(crowdShards)] //nolint:gosec // any spread will do
	s.mu.Lock()
	defer s.mu.Unlock()
	x.link = link{list: s, next: s.head}
	if s.head != nil {
		s.head.prev = x
	}
	s.head = x
}

func (r *crowd) remove(x *exchange) {
	s := x.list
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.prev == nil {
		s.head = x.next
	} else {
		x.prev.next = x.next
	}
	if x.next != nil {
		x.next.prev = x.prev
	}
	x.link = link{}
}

// linger keeps an exchange that is over in the list until then.
func (r *crowd) linger(x *exchange, until time.Time) {
	x.list.mu.Lock()
	defer x.list.mu.Unlock()
	x.lingers, x.until = true, until
}

func (r *crowd) each(f func(*exchange)) {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		for x := s.head; x != nil; x = x.next {
			f(x)
		}
		s.mu.Unlock()
	}
}
