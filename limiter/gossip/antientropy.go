package gossip

import "time"

// compare sends a peer what it lacks, and answers with a digest if it has
// something that we lack. What has just been sent is not taken for lost.
func (b *replica) compare(now time.Time, m message) {
	theirs := make(map[node]versionVectorEntry, len(m.versionVector))
	for _, h := range m.versionVector {
		theirs[h.origin] = h
	}
	b.fill(now, m.from, theirs)
	if m.kind == reply {
		return
	}
	for _, h := range m.versionVector {
		if p := b.peers[h.origin]; p != nil && p.alive && hasMore(h, &p.receiveWindow) {
			b.post(outbound{to: []node{m.from}, data: b.digest(now, reply)})
			return
		}
	}
}

// hasMore tells whether somebody has parcels that are missing here.
func hasMore(h versionVectorEntry, w *receiveWindow) bool {
	if h.high > w.high {
		return true
	}
	for _, s := range w.missing(maxSpans) {
		for seq := min(s.to, h.high); seq >= s.from; seq-- {
			if !within(h.missing, seq) {
				return true
			}
		}
	}
	return false
}

// fill sends a peer the parcels that it lacks, several in a message, as far as
// the budget goes.
func (b *replica) fill(now time.Time, to node, theirs map[node]versionVectorEntry) {
	var m []byte
	for i := range b.retained.parcels {
		p := &b.retained.parcels[i]
		h, wants := theirs[p.origin]
		if !wants || p.origin == to || now.Sub(p.came) < b.epoch || p.seq <= h.high && !within(h.missing, p.seq) {
			continue
		}
		if now.Sub(b.localOf(p.origin, p.ended)) > h.within {
			continue
		}
		if b.tokens <= 0 {
			b.counts.Withheld++
			continue
		}
		if m != nil && len(m)+len(p.data)+32 > maxParcel+64 {
			b.post(outbound{to: []node{to}, data: m})
			m = nil
		}
		if m == nil {
			m = head(push, b.id, now)
		}
		m = appendParcel(m, p.parcel)
	}
	if m != nil {
		b.post(outbound{to: []node{to}, data: m})
	}
}

func (b *replica) localOf(origin node, millis int64) time.Time {
	if p := b.peers[origin]; p != nil {
		return b.local(p, millis)
	}
	return time.UnixMilli(millis)
}
