package gossip

import (
	"slices"
	"time"
)

// tick commits the epoch that is over and says what is to be told to whom.
func (b *replica) tick(now time.Time) []outbound {
	b.outgoing = nil
	if elapsed := now.Sub(b.ticked); elapsed > 0 {
		b.tokens = min(b.tokens+min(elapsed, time.Second).Seconds()*b.budget(), b.budget())
		b.ticked = now
	}
	horizon := now.Add(-b.history)
	b.retained.forget(horizon)
	for _, p := range b.peers {
		p.giveUp(horizon)
	}
	b.counts.Expired += uint64(b.pending.forget(horizon.UnixMilli())) //nolint:gosec // a count
	b.commit(now)
	if to, ok := b.nextTurn(); ok {
		b.post(outbound{to: []node{to}, data: b.digest(now, digest)})
		b.askForSummary(now)
	}
	return b.outgoing
}

// nextTurn is to whom the next digest goes: to each of the live members once, in
// random order, and then again.
func (b *replica) nextTurn() (to node, ok bool) {
	if len(b.turns) == 0 {
		b.turns = slices.Clone(b.live)
		b.random.Shuffle(len(b.turns), func(i, j int) { b.turns[i], b.turns[j] = b.turns[j], b.turns[i] })
	}
	if len(b.turns) == 0 {
		return 0, false
	}
	to, b.turns = b.turns[0], b.turns[1:]
	return to, true
}

func (b *replica) budget() float64 { return float64(b.bytesPerSecond) }

// post sends a message and charges it to the budget.
func (b *replica) post(l outbound) {
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
func (b *replica) commit(now time.Time) {
	receivers := max(1, len(b.live))
	room := b.tokens * 3 / 4 / float64(receivers)
	b.amounts = b.pending.heaviest(b.amounts[:0], max(0, int(room/leastPacked)))
	for rest := b.amounts; room > 0 && len(rest) > 0; {
		data, n := b.packer.pack(rest, maxParcel)
		for _, a := range rest[:n] {
			b.pending.remove(a.key)
		}
		rest = rest[n:]
		b.seq++
		p := parcel{origin: b.id, seq: b.seq, ended: b.ended(now), data: data}
		b.retained.put(now, p)
		m := appendParcel(head(push, b.id, now), p)
		room -= float64(len(m))
		if len(b.live) > 0 {
			b.post(outbound{to: b.live, data: m})
		} else {
			b.tokens -= float64(len(m)) // alone or not, no more is kept than could be sent
		}
	}
	b.counts.Waiting = len(b.pending.totals)
	b.counts.Unsent += uint64(b.counts.Waiting) //nolint:gosec // a count
}

// digest tells what this node has.
func (b *replica) digest(now time.Time, k kind) []byte {
	list := make([]versionVectorEntry, 0, len(b.live)+1)
	list = append(list, versionVectorEntry{origin: b.id, high: b.seq})
	for _, i := range b.random.Perm(len(b.live)) {
		if len(list) == maxOrigins {
			break
		}
		p := b.peers[b.live[i]]
		within := min(b.history, now.Sub(time.UnixMilli(p.since)))
		list = append(list, versionVectorEntry{b.live[i], p.high, p.missing(maxSpans), max(0, within)})
	}
	return appendVersionVector(head(k, b.id, now), list)
}
