// Package outbox keeps the charges that a Sharer of the limiter has still to send.
package outbox

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"tempomat/limiter"
)

const shards = 16

// Outbox is a bounded queue of charges between the requests, which never wait,
// and the one goroutine of a Sharer that sends them. Charges of one key keep
// their order. The requests of different clients seldom meet at a lock.
type Outbox struct {
	seed    maphash.Seed
	filled  chan struct{}
	dropped atomic.Uint64
	shards  [shards]shard
}

type shard struct {
	mu    sync.Mutex // guards the following
	full  int
	queue []limiter.Charge
	spare []limiter.Charge // emptied, to be filled next
	_     [48]byte         // a cache line of its own
}

// New makes an Outbox for about size charges.
func New(size int) *Outbox {
	o := &Outbox{seed: maphash.MakeSeed(), filled: make(chan struct{}, 1)}
	for i := range o.shards {
		o.shards[i].full = max(1, size/shards)
	}
	return o
}

// Offer puts a charge in. It never waits; false says that there was no room.
func (o *Outbox) Offer(c limiter.Charge) bool {
	s := &o.shards[maphash.String(o.seed, c.Key.ID)%shards]
	s.mu.Lock()
	n := len(s.queue)
	if n >= s.full {
		s.mu.Unlock()
		o.dropped.Add(1)
		return false
	}
	s.queue = append(s.queue, c)
	s.mu.Unlock()
	if n == 0 {
		select {
		case o.filled <- struct{}{}:
		default:
		}
	}
	return true
}

// Filled receives once after charges have come into an empty Outbox.
func (o *Outbox) Filled() <-chan struct{} { return o.filled }

// Drain takes out all that is there. It is for one goroutine; no lock is held
// while f runs.
func (o *Outbox) Drain(f func(limiter.Charge)) {
	for i := range o.shards {
		s := &o.shards[i]
		s.mu.Lock()
		batch := s.queue
		s.queue, s.spare = s.spare[:0], nil
		s.mu.Unlock()
		for j := range batch {
			f(batch[j])
			batch[j] = limiter.Charge{}
		}
		s.mu.Lock()
		s.spare = batch[:0]
		s.mu.Unlock()
	}
}

// Dropped counts the charges for which there was no room.
func (o *Outbox) Dropped() uint64 { return o.dropped.Load() }
