package gossip

import (
	"time"
)

// peer is what is known of another node.
type peer struct {
	receiveWindow
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

// isSkewed tells whether a peer's clock is too far off for its figures to count.
func (b *replica) isSkewed(p *peer) bool { return p.skew.behind().Abs() > b.maxSkew }

// local turns an instant by a peer's clock into one of our own. Less than an epoch
// may be transit as well.
func (b *replica) local(p *peer, millis int64) time.Time {
	t := time.UnixMilli(millis)
	if behind := p.skew.behind(); behind.Abs() > b.epoch {
		t = t.Add(behind)
	}
	return t
}
