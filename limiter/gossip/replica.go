package gossip

import (
	"math/rand/v2"
	"slices"
	"time"

	"tempomat/limiter"
)

// rules are what a replica goes by.
type rules struct {
	epoch          time.Duration
	history        time.Duration // how long parcels are kept and charged
	maxSkew        time.Duration // between a peer's clock and ours, for its figures to count
	bytesPerSecond int           // that are sent, at most but for digests
}

// replica is what one node knows of the traffic of all. It is a state machine that
// is told the time: each call returns the messages that are to be sent. It is for
// one goroutine at a time.
type replica struct {
	rules
	epochs
	id     node
	random *rand.Rand
	sink   limiter.Sink

	pending  *pendingDeltas
	retained retained
	seq      uint64 // of the last parcel of our own
	peers    map[node]*peer
	live     []node  // that are members now, in order
	turns    []node  // of them, those that were sent no digest in this round
	tokens   float64 // bytes that may be sent
	ticked   time.Time

	learned  bool      // from a summary, or nobody gave one
	asked    time.Time // for one, the last time
	tries    int       // in which nobody did
	askAmong []node    // who may know of debts that we do not

	packer   *packer
	unpacker *unpacker
	amounts  []amount   // while committing
	outgoing []outbound // of the call that is under way
	counts   Counts
}

// outbound is a message and to whom it goes.
type outbound struct {
	to      []node
	data    []byte
	summary bool // instead of data, a summary is to be written
}

func newReplica(r rules, id node, seed uint64, sink limiter.Sink) *replica {
	return &replica{
		rules: r, epochs: epochs{r.epoch}, id: id, sink: sink,
		random:  rand.New(rand.NewPCG(seed, uint64(id))), //nolint:gosec // whom to tell next is no secret
		pending: newPendingDeltas(), peers: map[node]*peer{},
		packer: newPacker(), unpacker: newUnpacker(),
	}
}

// charge adds what was charged here.
func (b *replica) charge(now time.Time, c limiter.Charge) {
	if !b.pending.add(now.UnixMilli(), c.Key, c.Cost) {
		b.counts.Dropped++
	}
}

// received takes a message in and says what to answer. Nothing in it is believed
// before it was checked.
func (b *replica) received(now time.Time, data []byte) []outbound {
	b.outgoing = nil
	b.counts.Received += uint64(len(data))
	m, err := parse(data)
	if err != nil || m.from == b.id {
		b.counts.Malformed++
		return nil
	}
	sender := b.peers[m.from]
	if sender == nil || !sender.alive {
		b.counts.Strangers++
		return nil
	}
	sender.skew.sample(now, now.Sub(m.sent))
	b.heard(now, m.from, sender)
	switch m.kind {
	case push:
		for _, p := range m.parcels {
			b.take(now, p)
		}
	case digest, reply:
		b.compare(now, m)
	case ask:
		b.outgoing = append(b.outgoing, outbound{to: []node{m.from}, summary: true})
	case summary:
		b.learn(now, m)
	}
	return b.outgoing
}

// take charges a parcel, if it is new.
func (b *replica) take(now time.Time, p parcel) {
	o := b.peers[p.origin]
	switch {
	case p.origin == b.id:
		return
	case o == nil || !o.alive:
		b.counts.Strangers++
		return
	case o.has(p.seq):
		b.counts.Repeated++
		return
	}
	ended := b.local(o, p.ended)
	if b.isSkewed(o) || ended.After(now.Add(b.maxSkew)) {
		o.add(p.seq) // or it would be sent again and again
		b.counts.Skewed++
		return
	}
	if age := now.Sub(ended); age > b.history || ended.UnixMilli() < o.since {
		o.add(p.seq)
		b.counts.TooLate++
		return
	}
	list, err := b.unpacker.unpack(p.data)
	if err != nil {
		b.counts.Malformed++
		return
	}
	o.add(p.seq)
	o.mark(ended, p.seq)
	b.heard(now, p.origin, o)
	p.data = slices.Clone(p.data) // it is part of a message
	b.retained.put(now, p)
	b.counts.Applied++
	if now.Sub(ended) > 2*b.epoch {
		b.counts.Late++
	}
	for _, a := range list {
		b.sink.Debit(now, limiter.Charge{Key: a.key, Event: limiter.Settled, Cost: a.time, At: ended, Received: ended, Until: ended})
	}
}
