package limiter

import "time"

// Barrier is what keeps a request waiting. Once it is lifted, the request goes, or
// waits for another.
type Barrier uint8

// The barriers.
const (
	nothing       Barrier = iota
	Owes                  // a capped key of its has a debt to pay first
	BehindOwn             // its client's own requests of its size go first
	NoRoom                // as many compute that are as short or shorter as may
	RoomForOthers         // the room that is left is for those who are within their share
	NoWorker              // the workers that are left are kept for shorter ones
	KeyHolds              // one of its keys holds its part of the workers
	StrangersHold         // strangers hold their part of them
	Orphans               // its client left too many requests behind, which run on
	Misjudged             // requests that came as short ones, and are not, hold the workers for these
	Untried               // nobody knows what it costs, and only one such is tried at a time
	LongerFirst           // it is the turn of longer ones, which those who are ahead of their share let go
	KnownFirst            // it is the turn of somebody known, whom strangers let go
	StarvedFirst          // somebody waits for far too long, and goes first
	LeavesCPU             // it is long, its client is ahead of its share, and the others use the CPUs
	Turn                  // others of its size go first
	SiteHolds             // its site holds its part of the workers
	SiteAhead             // its site has had more than its share, and leaves room to another one
)

// barrier tells what keeps a request that waits, and which of its keys, by its place
// among the reservations. It asks what next does, in its order.
func (g *gate) barrier(at time.Duration, t *Ticket) (b Barrier, key int) {
	if t.heap == nil {
		return BehindOwn, 0
	}
	tried := false // it may go as one that is tried, at most
	if b, key = g.heldBy(t, false); b != nothing {
		if !g.mayHold(t, true) {
			return b, key
		}
		tried = true
	}
	v := g.view(t.site)
	switch r := t.level.rung(); {
	case tried:
		return Untried, 0
	case t.level.computes():
		return g.ladderBarrier(at, t, r), 0
	case !g.hasWorker(&v, r, false):
		return NoWorker, 0
	}
	return Turn, 0
}

// isOwnDoing tells whether a request waits for what its client's own requests have or had.
func (g *gate) isOwnDoing(at time.Duration, t *Ticket) bool {
	switch b, key := g.barrier(at, t); b {
	case BehindOwn:
		return true
	case KeyHolds, Orphans:
		return key == 0
	case Misjudged:
		return t.client.misjudged > 0
	case SiteHolds, SiteAhead:
		return false
	default:
		return t.ahead && !t.stranger
	}
}

// ladderBarrier tells what keeps the head of a lane that would compute.
func (g *gate) ladderBarrier(at time.Duration, t *Ticket, r rung) Barrier {
	v := g.view(t.site)
	alike, ahead := 0, 0
	for i := range r + 1 {
		alike += v.load.computing[i]
		ahead += v.load.ahead[i]
	}
	if g.isBehind(at, t.site) && (r > lightRung || !g.isLight(at, t.site)) {
		return SiteAhead
	}
	w := g.above(at, t.site)[r]
	switch g.doors(at, &v, r, alike, ahead, w.starving).of(t) {
	case closed:
		if t.level == fresh {
			return Untried
		}
		return NoRoom
	case toWithin, toOthers:
		if t.ahead {
			return RoomForOthers
		}
	case open:
	}
	rank := t.rank
	if t.stranger {
		rank = t.site.strangers.rank(t.site, &t.site.queues[t.level], t)
	}
	switch {
	case !g.hasWorker(&v, r, true):
		return NoWorker
	case w.holdsUp(rank):
		return StarvedFirst
	case t.ahead && !t.stranger && w.overdue:
		return LongerFirst
	case t.stranger && w.before(r, rank):
		return KnownFirst
	case !g.leaves(at, t):
		return LeavesCPU
	}
	return Turn
}
