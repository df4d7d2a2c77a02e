package gossip

import (
	"math/rand/v2"
	"slices"
	"time"

	"tempomat/limiter"
)

// rules are what a book goes by.
type rules struct {
	epoch          time.Duration
	history        time.Duration // how long parcels are kept and charged
	maxSkew        time.Duration // between a peer's clock and ours, for its figures to count
	bytesPerSecond int           // that are sent, at most but for digests
}

// book is what one node knows of the traffic of all. It is a state machine that
// is told the time: each call returns the messages that are to be sent. It is for
// one goroutine at a time.
type book struct {
	rules
	epochs
	id     node
	random *rand.Rand
	sink   limiter.Sink

	tally  *tally
	shelf  shelf
	seq    uint64 // of the last parcel of our own
	peers  map[node]*peer
	live   []node  // that are members now, in order
	tokens float64 // bytes that may be sent
	ticked time.Time

	learned  bool      // from a summary, or nobody gave one
	asked    time.Time // for one, the last time
	tries    int       // in which nobody did
	askAmong []node    // who may know of debts that we do not

	packer   *packer
	unpacker *unpacker
	amounts  []amount // while committing
	outgoing []letter // of the call that is under way
	counts   Counts
}

// peer is what is known of another node.
type peer struct {
	window
	skew  skew
	alive bool
	left  time.Time // when it was last a member
	heard time.Time // when something came from it
	since int64     // parcels that ended before, by our clock, are not for us
	marks []mark    // of the history, the oldest first
}

// mark says that a parcel of an epoch has a number. All before it are older.
type mark struct {
	ended time.Time
	seq   uint64
}

// mark notes an epoch, if it is a new one.
func (p *peer) mark(ended time.Time, seq uint64) {
	if n := len(p.marks); n == 0 || ended.After(p.marks[n-1].ended) {
		p.marks = append(p.marks, mark{ended, seq})
	}
}

// giveUp stops waiting for parcels that are too old by now.
func (p *peer) giveUp(horizon time.Time) {
	n := 0
	for n < len(p.marks) && p.marks[n].ended.Before(horizon) {
		p.skip(p.marks[n].seq)
		n++
	}
	p.marks = p.marks[n:]
}

// letter is a message and to whom it goes.
type letter struct {
	to      []node
	data    []byte
	summary bool // instead of data, a summary is to be written
}

func newBook(r rules, id node, seed uint64, sink limiter.Sink) *book {
	return &book{
		rules: r, epochs: epochs{r.epoch}, id: id, sink: sink,
		random: rand.New(rand.NewPCG(seed, uint64(id))), //nolint:gosec // whom to tell next is no secret
		tally:  newTally(), peers: map[node]*peer{},
		packer: newPacker(), unpacker: newUnpacker(),
	}
}

// charge adds what was charged here.
func (b *book) charge(now time.Time, c limiter.Charge) {
	if !b.tally.add(now.UnixMilli(), c.Key, c.Cost) {
		b.counts.Dropped++
	}
}

// meet says who the live members are now, this node left out.
func (b *book) meet(now time.Time, members []node) {
	b.live = slices.Sorted(slices.Values(members))
	for id, p := range b.peers {
		if p.alive && !slices.Contains(b.live, id) {
			p.alive, p.left = false, now
		}
	}
	for _, id := range b.live {
		p, known := b.peers[id]
		if !known {
			p = &peer{}
			b.peers[id] = p
		}
		if p.alive {
			continue
		}
		if p.alive = true; !known {
			p.since = now.UnixMilli() // what was before, a summary tells
			if !b.learned {
				b.askAmong = append(b.askAmong, id)
			}
		}
	}
	b.forgetPeers(now)
	b.sink.Divide(now, len(b.live)+1)
}

// heard notes that something came from a node, if only by way of others. If there
// had been nothing for longer than the history, it does not count what the node
// charged meanwhile: that was on another side of a split. But it may know debts.
func (b *book) heard(now time.Time, id node, p *peer) {
	if !p.heard.IsZero() && now.Sub(p.heard) > b.history {
		p.since = now.UnixMilli()
		b.askAmong = append(b.askAmong, id)
	}
	p.heard = now
}

// rememberPeers is how many that are gone are remembered at most, and for how long.
const (
	rememberPeers = 256
	rememberFor   = 24 * time.Hour
)

func (b *book) forgetPeers(now time.Time) {
	for id, p := range b.peers {
		if !p.alive && (now.Sub(p.left) > rememberFor || len(b.peers)-len(b.live) > rememberPeers) {
			delete(b.peers, id)
		}
	}
}

// tick commits the epoch that is over and says what is to be told to whom.
func (b *book) tick(now time.Time) []letter {
	b.outgoing = nil
	if elapsed := now.Sub(b.ticked); elapsed > 0 {
		b.tokens = min(b.tokens+min(elapsed, time.Second).Seconds()*b.budget(), b.budget())
		b.ticked = now
	}
	horizon := now.Add(-b.history)
	b.shelf.forget(horizon)
	for _, p := range b.peers {
		p.giveUp(horizon)
	}
	b.counts.Expired += uint64(b.tally.forget(horizon.UnixMilli())) //nolint:gosec // a count
	b.commit(now)
	if n := len(b.live); n > 0 {
		b.post(letter{to: []node{b.live[b.random.IntN(n)]}, data: b.digest(now, digest)})
		b.askForSummary(now)
	}
	return b.outgoing
}

func (b *book) budget() float64 { return float64(b.bytesPerSecond) }

// post sends a message and charges it to the budget.
func (b *book) post(l letter) {
	size := len(l.data) * len(l.to)
	b.tokens = max(b.tokens-float64(size), -b.budget())
	b.counts.Sent += uint64(size)
	b.outgoing = append(b.outgoing, l)
}

// leastPacked is about the fewest bytes that a key takes in a parcel.
const leastPacked = 4

// commit makes parcels of what was charged, the heaviest keys first, as far as
// the budget goes; the others wait and become heavier. A part of the budget is
// left for what peers lack.
func (b *book) commit(now time.Time) {
	receivers := max(1, len(b.live))
	room := b.tokens * 3 / 4 / float64(receivers)
	b.amounts = b.tally.heaviest(b.amounts[:0], max(0, int(room/leastPacked)))
	for rest := b.amounts; room > 0 && len(rest) > 0; {
		data, n := b.packer.pack(rest, maxParcel)
		for _, a := range rest[:n] {
			b.tally.remove(a.key)
		}
		rest = rest[n:]
		b.seq++
		p := parcel{origin: b.id, seq: b.seq, ended: b.ended(now), data: data}
		b.shelf.put(now, p)
		m := appendParcel(head(push, b.id, now), p)
		room -= float64(len(m))
		if len(b.live) > 0 {
			b.post(letter{to: b.live, data: m})
		} else {
			b.tokens -= float64(len(m)) // alone or not, no more is kept than could be sent
		}
	}
	b.counts.Waiting = len(b.tally.totals)
	b.counts.Unsent += uint64(b.counts.Waiting) //nolint:gosec // a count
}

// digest tells what this node has.
func (b *book) digest(now time.Time, k kind) []byte {
	list := make([]holding, 0, len(b.live)+1)
	list = append(list, holding{origin: b.id, high: b.seq})
	for _, i := range b.random.Perm(len(b.live)) {
		if len(list) == maxOrigins {
			break
		}
		p := b.peers[b.live[i]]
		within := min(b.history, now.Sub(time.UnixMilli(p.since)))
		list = append(list, holding{b.live[i], p.high, p.missing(maxSpans), max(0, within)})
	}
	return appendHoldings(head(k, b.id, now), list)
}

// received takes a message in and says what to answer. Nothing in it is believed
// before it was checked.
func (b *book) received(now time.Time, data []byte) []letter {
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
		b.outgoing = append(b.outgoing, letter{to: []node{m.from}, summary: true})
	case summary:
		b.learn(now, m)
	}
	return b.outgoing
}

// take charges a parcel, if it is new.
func (b *book) take(now time.Time, p parcel) {
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
	b.shelf.put(now, p)
	b.counts.Applied++
	if now.Sub(ended) > 2*b.epoch {
		b.counts.Late++
	}
	for _, a := range list {
		b.sink.Debit(now, limiter.Charge{Key: a.key, Event: limiter.Settled, Cost: a.time, At: ended, Received: ended, Until: ended})
	}
}

// isSkewed tells whether a peer's clock is too far off for its figures to count.
func (b *book) isSkewed(p *peer) bool { return p.skew.behind().Abs() > b.maxSkew }

// local turns an instant by a peer's clock into one of our own. Less than an epoch
// may be transit as well.
func (b *book) local(p *peer, millis int64) time.Time {
	t := time.UnixMilli(millis)
	if behind := p.skew.behind(); behind.Abs() > b.epoch {
		t = t.Add(behind)
	}
	return t
}
