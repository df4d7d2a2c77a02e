package gossip

import (
	"cmp"
	"slices"
	"time"

	"tempomat/limiter"
)

// These are the constants of a replica.
const (
	epoch     = 100 * time.Millisecond // how often totals are sent
	beat      = 10 * epoch             // how often a packet is sent even if no total has changed
	silence   = 64 * epoch             // two nodes that have exchanged nothing for this long meet again
	again     = 32 * epoch             // when the latest total is sent again
	idle      = 30 * time.Second       // when a key without charges is forgotten
	maxKeys   = 1 << 17
	maxCounts = 1 << 20 // totals of peers

	// bytesPerSecond limits the bytes sent to all peers together, not counting membership messages and states.
	// At the limit, the keys with the smallest changes wait.
	bytesPerSecond = 1 << 20
)

// Replica is one node's side of the protocol. It is a state machine that gets the time as an argument: each
// Tick returns the packets to send to all live members. Only one goroutine at a time may use it.
type Replica struct {
	id     Node
	sink   limiter.Sink
	budget float64 // bytes a second

	tallies map[limiter.Key]*tally
	peers   map[Node]*peer
	live    []Node   // the nodes that are members now, sorted
	begun   uint64   // the number of this node's latest series
	marked  uint64   // the value of begun at the last tick
	untold  []*tally // keys whose totals must be sent, or sent again
	counted int      // number of peers' totals in all tallies together

	tokens float64   // bytes that may be sent
	ticked time.Time // when tokens was last increased
	swept  time.Time
	said   time.Time // when the last packet was sent to all members
	counts Counts
}

// peer is what this node has learned about another node since they met.
type peer struct {
	alive   bool
	heard   time.Time // when its last message arrived
	met     bool      // a message from the peer has arrived
	floor   uint64    // for series up to this number, the first total is only the base for later ones
	strange bool      // no state that includes this peer's charges has arrived yet
	gone    bool      // the peer was forgotten, or has met this node again
}

// tally holds the totals of one key.
type tally struct {
	key    limiter.Key
	series uint64        // the number of this node's series; 0: there is none
	total  time.Duration // the total that this node charged
	told   uint64        // the part of total that has been sent, in microseconds
	due    time.Time     // when to send the total again; zero: it has been sent again
	listed bool          // it is in Replica.untold
	used   time.Time     // when the key was last charged
	others []theirs
}

// theirs is a peer's total.
type theirs struct {
	by *peer
	count
}

// NewReplica makes the replica of a node that doesn't know any other node yet. The replica passes other nodes'
// charges to the sink.
func NewReplica(id Node, sink limiter.Sink) *Replica {
	return &Replica{
		id: id, sink: sink, budget: bytesPerSecond,
		tallies: map[limiter.Key]*tally{}, peers: map[Node]*peer{},
	}
}

// SetMembers sets the live members, without this node.
func (b *Replica) SetMembers(now time.Time, members []Node) {
	b.live = slices.Sorted(slices.Values(members))
	for id, p := range b.peers {
		p.alive = slices.Contains(b.live, id)
	}
	for _, id := range b.live {
		if b.peers[id] == nil {
			b.peers[id] = &peer{alive: true, strange: true, heard: now}
		}
	}
	b.said = time.Time{} // sends a packet at the next tick, so new members meet this node
	b.sink.SetInstances(now, len(b.live)+1)
}

// tally returns the tally of a key. It makes one if there is none and there is room.
func (b *Replica) tally(now time.Time, k limiter.Key) *tally {
	t := b.tallies[k]
	if t == nil && len(b.tallies) < maxKeys {
		t = &tally{key: k, used: now}
		b.tallies[k] = t
	}
	return t
}

// Charge adds a charge that this node made.
func (b *Replica) Charge(now time.Time, c limiter.Charge) {
	if len(c.Key.ID) > maxID || len(c.Key.Class) > maxClass {
		b.counts.Dropped++
		return
	}
	t := b.tally(now, c.Key)
	if t == nil {
		b.counts.Dropped++
		return
	}
	if t.series == 0 {
		b.begun++
		t.series = b.begun
	}
	t.total += min(c.Cost, maxCost)
	t.used = now
	if !t.listed {
		t.listed = true
		b.untold = append(b.untold, t)
	}
}

// micros returns the total in microseconds, and untold the part of it that hasn't been sent yet.
func (t *tally) micros() uint64 { return uint64(t.total.Microseconds()) } //nolint:gosec // positive
func (t *tally) untold() uint64 { return t.micros() - t.told }

// Tick returns the packets to send to all members now.
func (b *Replica) Tick(now time.Time) (packets [][]byte) {
	if passed := now.Sub(b.ticked); passed > 0 {
		b.tokens = min(b.tokens+min(passed, time.Second).Seconds()*b.budget, b.budget)
		b.ticked = now
	}
	b.missPeers(now)
	if now.Sub(b.swept) >= time.Second {
		b.sweep(now)
	}
	packets = b.tell(now)
	if len(packets) == 0 && now.Sub(b.said) >= beat {
		packets = [][]byte{newWriter(kindTotals, b.id, b.marked, maxPacket).data}
	}
	if len(packets) > 0 {
		b.said = now
	}
	for _, p := range packets {
		b.tokens -= float64(len(p) * len(b.live))
		b.counts.Sent += uint64(len(p) * len(b.live))
	}
	b.marked = b.begun
	return packets
}

// missPeers forgets peers that have sent nothing for too long. Those that are still members meet this node
// again.
func (b *Replica) missPeers(now time.Time) {
	for id, p := range b.peers {
		if now.Sub(p.heard) <= silence {
			continue
		}
		p.gone = true
		if delete(b.peers, id); p.alive {
			b.peers[id] = &peer{alive: true, strange: true, heard: now}
		}
	}
}

// sweep forgets keys that haven't been charged for a while.
func (b *Replica) sweep(now time.Time) {
	b.swept = now
	for k, t := range b.tallies {
		before := len(t.others)
		if now.Sub(t.used) > idle && !t.listed {
			delete(b.tallies, k)
			for _, o := range t.others { // a late total of this series must not be charged in full
				o.by.floor = max(o.by.floor, o.series)
			}
			t.others = nil
		} else {
			t.others = slices.DeleteFunc(t.others, func(o theirs) bool { return o.by.gone })
		}
		b.counted -= before - len(t.others)
	}
}

// tell writes the totals that have changed, the largest changes first, until the byte budget is used up. The
// others wait and grow. If budget is left, tell repeats totals that were sent before, in case they were lost.
func (b *Replica) tell(now time.Time) (packets [][]byte) {
	rest := b.untold[:0]
	var ready []*tally
	for _, t := range b.untold {
		late := now.Sub(t.used) > idle
		if late && t.untold() > 0 {
			b.counts.Dropped++
		}
		if late || len(b.live) == 0 { // members that join later learn this total as part of a debt
			t.told, t.due = t.micros(), time.Time{}
		}
		if t.untold() == 0 && t.due.IsZero() {
			t.listed = false
			continue
		}
		rest = append(rest, t)
		if t.untold() > 0 || !now.Before(t.due) {
			ready = append(ready, t)
		}
	}
	clear(b.untold[len(rest):])
	b.untold = rest
	room := b.tokens / float64(max(1, len(b.live)))
	w := newWriter(kindTotals, b.id, b.marked, maxPacket)
	empty := len(w.data)
	slices.SortFunc(ready, func(x, y *tally) int { return cmp.Compare(y.untold(), x.untold()) })
	for len(ready) > 0 && room > 0 {
		t := ready[0]
		ready = ready[1:]
		if !w.hasRoom(t.key, 1) {
			packets = append(packets, w.data)
			w = newWriter(kindTotals, b.id, b.marked, maxPacket)
		}
		before := len(w.data)
		w.key(t.key)
		w.count(count{t.series, t.micros()})
		room -= float64(len(w.data) - before)
		if t.untold() > 0 {
			t.told, t.due = t.micros(), now.Add(again)
		} else {
			t.due = time.Time{}
		}
	}
	if len(w.data) > empty {
		packets = append(packets, w.data)
	}
	b.counts.Waiting = 0
	for _, t := range ready {
		if t.untold() > 0 {
			b.counts.Waiting++
		}
	}
	return packets
}

// Received handles a message. It checks the whole message before it changes anything.
func (b *Replica) Received(now time.Time, data []byte) {
	b.counts.Received += uint64(len(data))
	m, err := parse(data)
	if err != nil || m.from == b.id {
		b.counts.Malformed++
		return
	}
	sender := b.peers[m.from]
	if sender == nil || !sender.alive {
		b.counts.Strangers++
		return
	}
	sender.heard = now
	if !sender.met {
		sender.met, sender.floor = true, m.begun
	}
	if m.kind == kindState {
		b.learn(now, m)
		return
	}
	for _, k := range m.keys {
		b.chargeNew(now, sender, k.key, k.counts[0])
	}
}

// chargeNew charges the part of a peer's total that hasn't yet been charged here.
func (b *Replica) chargeNew(now time.Time, p *peer, k limiter.Key, c count) {
	if charged := b.note(now, p, k, c); charged > 0 {
		cost := time.Duration(min(charged, uint64(maxCost/time.Microsecond))) * time.Microsecond
		b.sink.Debit(now, limiter.Charge{Key: k, Event: limiter.Settled, Cost: cost, At: now, Received: now, Until: now})
	}
}

// note stores the total that a peer charged, and returns the microseconds of it that must still be charged
// here.
func (b *Replica) note(now time.Time, p *peer, k limiter.Key, c count) (charged uint64) {
	t := b.tally(now, k)
	if t == nil {
		b.counts.Dropped++
		return 0
	}
	i := slices.IndexFunc(t.others, func(o theirs) bool { return o.by == p })
	if i < 0 {
		if b.counted >= maxCounts {
			b.counts.Dropped++
			return 0
		}
		i = len(t.others)
		t.others = append(t.others, theirs{by: p})
		b.counted++
	}
	before := t.others[i].count
	if c.series < before.series || c.series == before.series && c.micros <= before.micros {
		return 0
	}
	t.others[i].count, t.used = c, now
	switch {
	case c.series == before.series:
		return c.micros - before.micros
	case c.series > p.floor:
		return c.micros
	default: // the series began before this node met the peer
		return 0
	}
}

// debt is how long a key stays in debt.
type debt struct {
	key  limiter.Key
	owes time.Duration
}

// state writes debts, the longest first, and the totals that they include: those of this node, and those of
// peers whose debts it has learned. Charges that were made after the debts were read are in neither the debts
// nor the totals.
func (b *Replica) state(debts []debt) []byte {
	var nodes []Node
	for _, id := range b.live {
		if len(nodes) < maxMembers-1 && !b.peers[id].strange {
			nodes = append(nodes, id)
		}
	}
	w := newWriter(kindState, b.id, b.begun, maxState)
	w.number(uint64(len(nodes) + 1))
	w.node(b.id)
	for _, id := range nodes {
		w.node(id)
	}
	slices.SortFunc(debts, func(x, y debt) int { return cmp.Compare(y.owes, x.owes) })
	none := &tally{}
	for _, d := range debts {
		if !w.hasRoom(d.key, len(nodes)+1) {
			break
		}
		t := cmp.Or(b.tallies[d.key], none)
		w.key(d.key)
		w.number(uint64(d.owes.Microseconds())) //nolint:gosec // positive
		w.count(count{t.series, t.micros()})
		for _, id := range nodes {
			w.count(t.of(b.peers[id]))
		}
	}
	b.counts.Sent += uint64(len(w.data))
	return w.data
}

// of returns the peer's total of the key.
func (t *tally) of(p *peer) count {
	for _, o := range t.others {
		if o.by == p {
			return o.count
		}
	}
	return count{}
}

// learn handles a received state if its debts include charges of a node whose debts this node doesn't know yet.
// It raises each debt to the received debt if that is larger. It never adds the two.
func (b *Replica) learn(now time.Time, m message) {
	known := make([]*peer, len(m.nodes)) // nodes that aren't members stay nil
	strange := false
	for i, id := range m.nodes {
		if p := b.peers[id]; p != nil && p.alive {
			known[i] = p
			strange = strange || p.strange
			p.strange = false
		}
	}
	if !strange {
		return
	}
	b.counts.Learned++
	for _, k := range m.keys {
		for i, p := range known {
			if p != nil && k.counts[i].series > 0 {
				b.note(now, p, k.key, k.counts[i])
			}
		}
		b.sink.Raise(now, k.key, now.Add(k.owes))
	}
}
