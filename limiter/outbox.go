package limiter

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

const outboxShards = 16

// Outbox is a bounded queue of the charges that a Sharer still has to send. Requests add charges without
// waiting, and one goroutine sends them. Charges of one key keep their order. The queue has several shards,
// each with its own lock, so requests of different clients rarely wait for each other.
type Outbox struct {
	seed    maphash.Seed
	filled  chan struct{}
	dropped atomic.Uint64
	shards  [outboxShards]outboxShard
}

type outboxShard struct {
	mu    sync.Mutex // guards the fields below
	full  int
	queue []Charge
	spare []Charge // an empty slice for the next queue
	_     [48]byte // gives each shard its own cache line
}

// NewOutbox makes an Outbox for about size charges.
func NewOutbox(size int) *Outbox {
	o := &Outbox{seed: maphash.MakeSeed(), filled: make(chan struct{}, 1)}
	for i := range o.shards {
		o.shards[i].full = max(1, size/outboxShards)
	}
	return o
}

// Offer adds a charge. It never waits, and returns false if there was no room.
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

// Filled returns a channel that receives once after charges were added to an empty Outbox.
func (o *Outbox) Filled() <-chan struct{} { return o.filled }

// Drain takes out all charges and calls f for each. Only one goroutine may call it. It holds no lock while f
// runs.
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

// Dropped returns how many charges were dropped because there was no room.
func (o *Outbox) Dropped() uint64 { return o.dropped.Load() }

// Packets is a queue of packets that a Sharer still has to send. A full queue drops new packets, because they
// aren't more useful than the queued ones.
type Packets chan []byte

// NewPackets makes a queue with room for the packets of a few seconds.
func NewPackets() Packets { return make(Packets, 64) }

// Carry adds a packet. It never waits, and returns false if there was no room.
func (p Packets) Carry(packet []byte) bool {
	select {
	case p <- packet:
		return true
	default:
		return false
	}
}
