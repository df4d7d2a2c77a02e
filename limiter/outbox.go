package limiter

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

const outboxShards = 16

// Outbox keeps the charges that a Sharer has still to send: a bounded queue between the
// requests, which never wait, and the one goroutine that sends them. Charges of one key keep
// their order. The requests of different clients seldom meet at a lock.
type Outbox struct {
	seed    maphash.Seed
	filled  chan struct{}
	dropped atomic.Uint64
	shards  [outboxShards]outboxShard
}

type outboxShard struct {
	mu    sync.Mutex // guards the following
	full  int
	queue []Charge
	spare []Charge // emptied, to be filled next
	_     [48]byte // a cache line of its own
}

// NewOutbox makes an Outbox for about size charges.
func NewOutbox(size int) *Outbox {
	o := &Outbox{seed: maphash.MakeSeed(), filled: make(chan struct{}, 1)}
	for i := range o.shards {
		o.shards[i].full = max(1, size/outboxShards)
	}
	return o
}

// Offer puts a charge in. It never waits; false says that there was no room.
func (o *Outbox) Offer(c Charge) bool {
	s := &o.shards[maphash.String(o.seed, c.Key.ID)%outboxShards]
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
func (o *Outbox) Drain(f func(Charge)) {
	for i := range o.shards {
		s := &o.shards[i]
		s.mu.Lock()
		batch := s.queue
		s.queue, s.spare = s.spare[:0], nil
		s.mu.Unlock()
		for j := range batch {
			f(batch[j])
			batch[j] = Charge{}
		}
		s.mu.Lock()
		s.spare = batch[:0]
		s.mu.Unlock()
	}
}

// Dropped counts the charges without room.
func (o *Outbox) Dropped() uint64 { return o.dropped.Load() }

// Packets are those that a Sharer has still to carry. The latest are of no more use than those
// before them, so what has no room is dropped.
type Packets chan []byte

// NewPackets makes room for as many as are made in some seconds.
func NewPackets() Packets { return make(Packets, 64) }

// Carry puts one in. It never waits; false says that there was no room.
func (p Packets) Carry(packet []byte) bool {
	select {
	case p <- packet:
		return true
	default:
		return false
	}
}
