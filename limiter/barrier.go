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
	Misjudged             // requests that came as short ones, and are not, hold the workers for these
	Untried               // nobody knows what it costs, and only one such is tried at a time
	LeavesCPU             // it is long, its client is ahead of its share, and the others use the CPUs
	Turn                  // others of its size go first
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
	switch r := t.level.rung(); {
	case tried:
		return Untried, 0
	case t.level.computes():
		return g.ladderBarrier(at, t, r), 0
	case !g.hasWorker(r, false, 0):
		return NoWorker, 0
	}
	return Turn, 0
}

// isOwnDoing tells whether a request waits for what its client's own requests have or had.
func (g *gate) isOwnDoing(at time.Duration, t *Ticket) bool {
	switch b, key := g.barrier(at, t); b {
	case BehindOwn:
		return true
	case KeyHolds:
		return key == 0
	case Misjudged:
		return t.client.misjudged > 0
	case SiteAhead:
		return false
	default:
		return t.ahead && !t.stranger
	}
}

// ladderBarrier tells what keeps the head of a lane that would compute.
func (g *gate) ladderBarrier(at time.Duration, t *Ticket, r rung) Barrier {
	alike, ahead := 0, 0
	for i := range r + 1 {
		alike += g.load.computing[i]
		ahead += g.load.ahead[i]
	}
	if g.isHeldBack(at, t.site) {
		return SiteAhead
	}
	switch g.doors(at, r, alike, ahead).of(t) {
	case closed:
		if t.level == fresh {
			return Untried
		}
		return NoRoom
	case toWithin:
		if t.ahead {
			return RoomForOthers
		}
	case open:
	}
	switch {
	case !g.hasWorker(r, true, g.mayTry(at)):
		return NoWorker
	case !g.leaves(at, t):
		return LeavesCPU
	}
	return Turn
}
