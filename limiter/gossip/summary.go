package gossip

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"tempomat/limiter"
)

// Ledger is who knows what the keys owe. *limiter.Limiter is one. Without it, a
// sharer can not answer newcomers that ask.
type Ledger interface {
	Classes() []limiter.ClassInfo
	Dump(now time.Time, class string, yield func(limiter.Row) bool)
}

// Bounds of a summary, which goes over a stream.
const (
	maxDebts   = 1 << 17
	maxBlock   = 32 << 10 // bytes, packed
	maxSummary = 2 << 20
)

// debt is what a key owes, in CPU-seconds, and what it earns in a second.
type debt struct {
	key        limiter.Key
	owes, rate float64
}

// debtsOf lists who owes, but for private classes. The guesses that requests which still run were charged
// with are among it, and what those cost is told again when they are done: a
// newcomer may count that twice, of the few requests that run at that moment.
func debtsOf(now time.Time, l Ledger) (list []debt) {
	for _, c := range l.Classes() {
		if c.Budget.External || c.Budget.CPUs <= 0 || c.Budget.LocalOnly || len(c.Name) > maxClass {
			continue
		}
		l.Dump(now, c.Name, func(r limiter.Row) bool {
			if r.Level < 0 && len(r.ID) <= maxID {
				list = append(list, debt{limiter.Key{Class: r.Class, ID: r.ID}, -r.Level, c.Budget.CPUs})
			}
			return len(list) < maxDebts
		})
	}
	return list
}

// include says what a summary is made of: what was owed a moment ago and, asked
// after that, which parcels it includes. What has been charged here and was not
// committed is taken out of it, as it will come in a parcel. So nothing that a
// newcomer is told of here is told again; what came in between is told to it by
// none of them.
func (b *replica) include(debts []debt) (list []amount, has []versionVectorEntry) {
	for _, d := range debts {
		d.owes -= b.pending.of(d.key).Seconds()
		if left := time.Duration(min(d.owes/d.rate, maxCost.Seconds()) * float64(time.Second)); left >= time.Millisecond {
			list = append(list, amount{d.key, left})
		}
	}
	has = []versionVectorEntry{{origin: b.id, high: b.seq}}
	for id, p := range b.peers {
		if len(has) < maxMembers && p.high > 0 {
			has = append(has, versionVectorEntry{origin: id, high: p.high, missing: p.missing(maxSpans)})
		}
	}
	return list, has
}

// writeSummary writes one, the longest debts first.
func writeSummary(now time.Time, from node, list []amount, has []versionVectorEntry) []byte {
	slices.SortFunc(list, func(a, b amount) int { return cmp.Compare(b.time, a.time) })
	m := appendVersionVector(head(summary, from, now), has)
	for p := newPacker(); len(list) > 0 && len(m) < maxSummary; {
		data, n := p.pack(list, maxBlock)
		list = list[n:]
		m = append(binary.AppendUvarint(m, uint64(len(data))), data...)
	}
	return m
}

// How a newcomer asks: again after a while, and not for ever.
const (
	askAgain = 200 * time.Millisecond
	askTries = 30
)

// askForSummary asks one of those who may know more, until one has answered.
func (b *replica) askForSummary(now time.Time) {
	b.askAmong = slices.DeleteFunc(b.askAmong, func(id node) bool {
		p := b.peers[id]
		return p == nil || !p.alive
	})
	if len(b.askAmong) == 0 || now.Sub(b.asked) < askAgain {
		return
	}
	if b.tries++; b.tries > askTries {
		b.learned, b.askAmong, b.tries = true, nil, 0
		return
	}
	b.asked = now
	whom := b.askAmong[b.random.IntN(len(b.askAmong))]
	for _, id := range b.askAmong { // better one that was heard of lately: others may be dead, and not missed yet
		if b.peers[id].skew.known && b.random.IntN(2) == 0 {
			whom = id
		}
	}
	b.post(outbound{to: []node{whom}, data: head(ask, b.id, now)})
}

// learn takes in a summary that was asked for. Debts are raised, never added.
func (b *replica) learn(now time.Time, m message) {
	sent := b.local(b.peers[m.from], m.sent.UnixMilli())
	if len(b.askAmong) == 0 || now.Sub(sent) > b.history {
		b.counts.TooLate++
		return
	}
	for _, d := range m.debts {
		if _, err := b.unpacker.unpack(d); err != nil {
			b.counts.Malformed++
			return
		}
	}
	b.learned, b.askAmong, b.tries = true, nil, 0
	b.counts.Summaries++
	for _, h := range m.versionVector {
		if p := b.peers[h.origin]; p != nil { // missed or not: it may be back before its parcels are too old
			p.adopt(h.high, h.missing)
		}
	}
	for _, d := range m.debts {
		list, _ := b.unpacker.unpack(d) // again: it was all right
		for _, a := range list {
			b.sink.Raise(now, a.key, now.Add(a.time))
		}
	}
}
