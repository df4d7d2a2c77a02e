package front

import (
	"math/rand/v2"
	"sync"
)

const rosterShards = 16

// Roster is a set of members that are added and removed often, such as connections and requests. Each member
// contains its own list entry, so adding a member allocates nothing. The set has several shards, so goroutines
// rarely contend for a lock. The zero Roster is empty. Its methods may be called concurrently.
type Roster[T any] struct {
	shards [rosterShards]shard[T]
}

type shard[T any] struct {
	mu   sync.Mutex // guards the fields below and the members' links
	head *RosterEntry[T]
	_    [48]byte // pads the shard to a cache line
}

// RosterEntry is the part of a member that links it into a Roster. A member is in at most one Roster.
type RosterEntry[T any] struct {
	shard      *shard[T] // shard that contains the member; nil: none
	next, prev *RosterEntry[T]
	member     *T
}

// Add adds a member by its RosterEntry. The member must not be in a Roster.
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

// Remove removes a member. After Remove returns, no call of Each uses the member any more.
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

// Exclusively calls f while no call of Each looks at the member, so f can safely use everything that the
// function passed to Each reads or changes.
func (e *RosterEntry[T]) Exclusively(f func()) {
	e.shard.mu.Lock()
	defer e.shard.mu.Unlock()
	f()
}

// Each calls f for each member. f must not block, and must not add or remove members.
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
