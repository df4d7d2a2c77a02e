package gossip

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"tempomat/limiter"
)

// Constants of a replica.
const (
	epoch     = 100 * time.Millisecond // how often totals are told
	beat      = 10 * epoch             // and how often that there is nothing to tell
	silence   = 64 * epoch             // silence after which two nodes meet again
	again     = 32 * epoch             // after which a total is told once more, if it is still the last one
	idle      = 2 * time.Minute        // after which a key is forgotten
	idleLeast = 8 * time.Second        // the same, while there is no room
	maxKeys   = 1 << 17
	maxCounts = 1 << 20 // of peers

	// bytesPerSecond bounds what is sent to all peers together, except for membership
	// and states. The lightest keys wait if it is reached.
	bytesPerSecond = 1 << 20
)

// Replica is what one node knows of the traffic of all. It is a state machine that
// is told the time: each tick returns the packets that are to be sent to all live
// members. It is for one goroutine at a time.
type Replica struct {
	id     Node
	sink   limiter.Sink
	budget float64 // bytes a second

	tallies map[limiter.Key]*tally
	peers   map[Node]*peer
	live    []Node        // that are members now, in order
	begun   uint64        // the number of our last series
	marked  uint64        // the same, at the last tick
	untold  []*tally      // and those that are to be told again
	ready   heaviest      // while telling
	counted int           // counts of peers, in all tallies
	idle    time.Duration // after which a key is forgotten now

	tokens float64   // bytes that may be sent
	ticked time.Time // at the last tick
	swept  time.Time
	said   time.Time // when all were told something, if only that we are here
	counts Counts
}

// peer is what is known of another node, since it was met.
type peer struct {
	alive   bool
	heard   time.Time // when something came from it last
	met     bool      // something came
	floor   uint64    // series up to this number are not charged from their beginning
	strange bool      // no debts were learnt that include what it charged
	gone    bool      // it was forgotten, or met again
}

// tally is what was charged to a key.
type tally struct {
	key    limiter.Key
	series uint64        // of our own charges; 0: there are none
	total  time.Duration // of our own
	told   uint64        // microseconds of it
	due    time.Time     // when it is to be told once more; zero: it was
	listed bool          // it is among the untold
	used   time.Time     // when it was charged last
	others []theirs
}

// theirs is what a peer charged.
type theirs struct {
	by *peer
	count
}

// NewReplica makes the replica of the node with that number. It tells sink what others charge.
// NewReplica makes that of a node, which knows of nobody yet.
func NewReplica(id Node, sink limiter.Sink) *Replica {
	return &Replica{
		id: id, sink: sink, budget: bytesPerSecond, idle: idle,
		tallies: map[limiter.Key]*tally{}, peers: map[Node]*peer{},
	}
}

// SetMembers says who the live members are now, this node left out.
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
	b.said = time.Time{} // those that are new are to hear of us
	b.sink.SetReplicas(now, len(b.live)+1)
}

// tally returns that of a key, or a new one if there is room.
func (b *Replica) tally(now time.Time, k limiter.Key) *tally {
	t := b.tallies[k]
	if t == nil && len(b.tallies) < maxKeys {
		t = &tally{key: k, used: now}
		b.tallies[k] = t
	}
	return t
}

// Charge adds what was charged here.
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

// micros is the total in microseconds, untold the part that was not sent yet.
func (t *tally) micros() uint64 { return uint64(t.total.Microseconds()) } //nolint:gosec // positive
func (t *tally) untold() uint64 { return t.micros() - t.told }

// heaviest is a heap, from which the tally comes first of which most was not told.
type heaviest []*tally

func (h heaviest) Len() int           { return len(h) }
func (h heaviest) Less(i, j int) bool { return h[i].untold() > h[j].untold() }
func (h heaviest) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *heaviest) Push(x any)        { *h = append(*h, x.(*tally)) }
func (h *heaviest) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// Tick says what is to be told to all.
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

// missPeers has those that were not heard of for too long be met again, or forgets
// them.
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

// sweep forgets keys that were not charged for a while. It is the sooner the less
// room there is.
func (b *Replica) sweep(now time.Time) {
	b.swept = now
	if len(b.tallies) > maxKeys*3/4 || b.counted > maxCounts*3/4 {
		b.idle = max(b.idle/2, idleLeast)
	} else if len(b.tallies) < maxKeys/2 && b.counted < maxCounts/2 {
		b.idle = min(b.idle*2, idle)
	}
	for k, t := range b.tallies {
		before := len(t.others)
		if now.Sub(t.used) > b.idle && !t.listed {
			delete(b.tallies, k)
			for _, o := range t.others { // what is left of its series is not to be charged as a whole
				o.by.floor = max(o.by.floor, o.series)
			}
			t.others = nil
		} else {
			t.others = slices.DeleteFunc(t.others, func(o theirs) bool { return o.by.gone })
		}
		b.counted -= before - len(t.others)
	}
}

// tell writes the totals that have changed, the heaviest changes first, as far as
// the budget goes; the others wait and become heavier. Behind them come those that were told
// before, and may have been lost.
func (b *Replica) tell(now time.Time) (packets [][]byte) {
	ready, rest := b.ready[:0], b.untold[:0]
	for _, t := range b.untold {
		late := now.Sub(t.used) > b.idle
		if late && t.untold() > 0 {
			b.counts.Dropped++
		}
		if late || len(b.live) == 0 { // those that come will hear what is owed
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
	heap.Init(&ready)
	b.ready = ready
	for len(ready) > 0 && room > 0 {
		t := heap.Pop(&ready).(*tally)
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
	clear(b.ready)
	return packets
}

// Received takes a message in. Nothing in it is believed before all of it was
// checked.
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

// chargeNew charges what is new of a total.
func (b *Replica) chargeNew(now time.Time, p *peer, k limiter.Key, c count) {
	charged, known := b.note(now, p, k, c)
	switch {
	case !known:
		b.counts.Repeated++
	case charged > 0:
		b.counts.Applied++
		cost := time.Duration(min(charged, uint64(maxCost/time.Microsecond))) * time.Microsecond
		b.sink.Debit(now, limiter.Charge{Key: k, Event: limiter.Settled, Cost: cost, At: now, Received: now, Until: now})
	}
}

// note remembers what a peer charged in all. It returns the microseconds that are to
// be charged of it, and whether it is news.
func (b *Replica) note(now time.Time, p *peer, k limiter.Key, c count) (charged uint64, news bool) {
	t := b.tally(now, k)
	if t == nil {
		b.counts.Dropped++
		return 0, false
	}
	i := slices.IndexFunc(t.others, func(o theirs) bool { return o.by == p })
	if i < 0 {
		if b.counted >= maxCounts {
			b.counts.Dropped++
			return 0, false
		}
		i = len(t.others)
		t.others = append(t.others, theirs{by: p})
		b.counted++
	}
	before := t.others[i].count
	if c.series < before.series || c.series == before.series && c.micros <= before.micros {
		return 0, false
	}
	t.others[i].count, t.used = c, now
	switch {
	case c.series == before.series:
		return c.micros - before.micros, true
	case c.series > p.floor:
		return c.micros, true
	default: // it began before this node met the peer
		return 0, true
	}
}

// debt is for how long a key owes.
type debt struct {
	key  limiter.Key
	owes time.Duration
}

// state writes debts, the longest first, and the totals that they include: our own,
// and those of the peers that this node has learnt the debts of. The debts are of a
// moment ago: what came in between is told by none of them.
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

// of is what a peer charged.
func (t *tally) of(p *peer) count {
	for _, o := range t.others {
		if o.by == p {
			return o.count
		}
	}
	return count{}
}

// learn takes in debts, if they include charges of a node whose debts are not known here. Debts
// are raised, never added.
func (b *Replica) learn(now time.Time, m message) {
	known := make([]*peer, len(m.nodes)) // those that are no members stay nil
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
