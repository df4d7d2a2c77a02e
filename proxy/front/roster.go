package front

import (
	"math/rand/v2"
	"sync"
)

const rosterShards = 16

// Roster is a set of things that come and go often, such as connections and requests, and are
// listed now and then. Its lists run through the members, so a member costs no memory, and it has
// several shards, so goroutines seldom meet at a lock. The zero Roster is empty. Its methods may
// be called concurrently.
type Roster[T any] struct {
	shards [rosterShards]shard[T]
}

type shard[T any] struct {
	mu   sync.Mutex // guards the following, and the links of its members
	head *RosterEntry[T]
	_    [48]byte // a cache line of its own
}

// RosterEntry is a member's place in a Roster, and part of it. It is in one Roster at a time at
// most.
type RosterEntry[T any] struct {
	shard      *shard[T] // nil: in none
	next, prev *RosterEntry[T]
	member     *T
}

// Add takes in a member, which is in no Roster, by the RosterEntry that is part of it.
func (r *Roster[T]) Add(e *RosterEntry[T], member *T) {
	s := &r.shards[rand.IntN(rosterShards)] //nolint:gosec // any spread will do
	s.mu.Lock()
	defer s.mu.Unlock()
	*e = RosterEntry[T]{shard: s, next: s.head, member: member}
	if s.head != nil {
		s.head.prev = e
	}
	s.head = e
}

// Remove takes a member out. It returns once no goroutine looks at it any more.
func (e *RosterEntry[T]) Remove() {
	s := e.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.prev == nil {
		s.head = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	}
	*e = RosterEntry[T]{}
}

// Exclusively calls f while no Each looks at the member: what Each's function changes of a
// member, and what it reads that others change, is guarded by that.
func (e *RosterEntry[T]) Exclusively(f func()) {
	e.shard.mu.Lock()
	defer e.shard.mu.Unlock()
	f()
}

// Each calls f for each member. It must not wait, nor take a member in or out.
func (r *Roster[T]) Each(f func(*T)) {
	for i := range r.shards {
		r.shards[i].each(f)
	}
}

func (s *shard[T]) each(f func(*T)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.head; e != nil; e = e.next {
		f(e.member)
	}
}
