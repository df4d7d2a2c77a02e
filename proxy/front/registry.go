package front

import (
	"math/rand/v2"
	"sync"
)

const registryShards = 16

// registry is the connections there are, in lists through themselves, sharded so that
// they seldom meet at a lock.
type registry struct {
	shards [registryShards]registryShard
}

type registryShard struct {
	mu   sync.Mutex // guards the following, and the links of its connections
	head *conn
	_    [48]byte // a cache line of its own
}

// link is a connection's place in a list.
type link struct {
	list       *registryShard // nil: in none
	next, prev *conn
}

func (r *registry) add(c *conn) {
	s := &r.shards[rand.IntN(registryShards)] //nolint:gosec // any spread will do
	s.mu.Lock()
	defer s.mu.Unlock()
	c.link = link{list: s, next: s.head}
	if s.head != nil {
		s.head.prev = c
	}
	s.head = c
}

func (r *registry) remove(c *conn) {
	s := c.list
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.prev == nil {
		s.head = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.link = link{}
}

// each calls f for each of them; f must not wait.
func (r *registry) each(f func(*conn)) {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		for c := s.head; c != nil; c = c.next {
			f(c)
		}
		s.mu.Unlock()
	}
}

func (r *registry) isEmpty() bool {
	empty := true
	r.each(func(*conn) { empty = false })
	return empty
}
