package limiter

import (
	"cmp"
	"slices"
	"time"
)

// Outlook is what a request that waits has before it, at one moment.
type Outlook struct {
	Waits bool   // it does; else the rest says nothing
	Site  string // the name of its site; empty: it is for no named one
	// Before is about how many go before it of those of its size, as their turns are now: without those that
	// come yet.
	Before int
	Barrier
	// Key is the one whose debt, or whose workers, the Barrier is about, if any.
	Key Key
	// Have of Most is how many of what the Barrier counts there are, and may be; of
	// BehindOwn, how many of its client's own wait before it.
	Have, Most     int
	Paid           time.Duration // until the Key's debt is paid, of Owes
	Lead           float64       // by how many CPU-seconds its client is ahead of its share; of strangers, all of them
	CostMultiplier float64       // by how much its cost counts for more in its rank, as its keys owe: 2 to 18; 0: not ranked yet
	Guess          time.Duration // what it will likely cost
	Waited         time.Duration
	Size           time.Duration // the most of those that it counts among; 0: there are no longer ones
	Sure           bool          // the Guess rests on answers
	Stranger       bool          // it takes the turn of all strangers together
	Fresh          bool          // nobody knows what it costs
	Holds          bool          // it will likely hold a worker and hardly compute
	Ahead          bool          // its client had more than its share as it asked
}

// Outlooks tells what each of some requests has before it, and why it waits. It changes nothing.
func (l *Limiter) Outlooks(now time.Time, waiting []*Ticket) []Outlook {
	at := l.since(now)
	all := make([]Outlook, len(waiting))
	for i, t := range waiting {
		l.roomOutlook(at, t, &all[i])
	}
	g := l.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	places := make(map[*levelQueue]map[*Ticket]int)
	for i, t := range waiting {
		if t.phase != queued {
			continue
		}
		g.outlook(at, t, &all[i])
		q := &t.site.queues[t.level]
		if places[q] == nil {
			places[q] = g.places(t.site, t.level)
		}
		all[i].Before = places[q][t]
	}
	return all
}

// places tells how many of those of a level go before each of them, as their ranks are now: those behind
// the head of a lane follow it by what each of them costs.
func (g *gate) places(s *site, of level) map[*Ticket]int {
	type turn struct {
		t    *Ticket
		rank float64
	}
	q := &s.queues[of]
	var all []turn
	add := func(head *Ticket, rank float64) {
		for t := head; t != nil; t = t.links[inLane].behind {
			all = append(all, turn{t, rank})
			rank += t.guess / max(t.flow.share, 1e-9) * baseMultiplier
		}
	}
	strange := slices.SortedFunc(slices.Values(q.strange), func(a, b *Ticket) int {
		if a.precedes(b) {
			return -1
		}
		return 1
	})
	for i, t := range strange {
		e := t.guess / s.strangers.share
		add(t, s.strangers.rank(s, q, t)+float64(i)*e)
	}
	for _, heap := range [...]headHeap{q.underShare, q.overShare, s.parked} {
		for _, t := range heap {
			if t.level == of {
				add(t, t.rank)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b turn) int { return cmp.Compare(a.rank, b.rank) })
	place := make(map[*Ticket]int, len(all))
	for i, x := range all {
		place[x.t] = i
	}
	return place
}

// roomOutlook tells of a request in the waiting room.
func (l *Limiter) roomOutlook(at time.Duration, t *Ticket, o *Outlook) {
	l.room.mu.Lock()
	defer l.room.mu.Unlock()
	if t.waitEntry == nil || t.in == nil {
		return
	}
	q := t.in
	*o = Outlook{
		Waits: true, Site: t.siteName, Barrier: Owes, Key: q.bucket.Key, Waited: at - t.arrived, Paid: t.reservationOf(q.bucket).Blocks(at),
		Guess: seconds(t.guess), Sure: t.sure,
	}
	for before := t.links[inRoom].before; before != nil; before = before.links[inRoom].before {
		o.Before++
		o.Paid += q.bucket.Earns(before.guess)
	}
}

func seconds(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }

// outlook fills in what keeps a request that waits at the gate. The gate's lock is held.
func (g *gate) outlook(at time.Duration, t *Ticket, o *Outlook) {
	r, n := t.level.rung(), &g.limits
	*o = Outlook{
		Waits: true, Site: t.site.name, Waited: at - t.asked, Guess: seconds(t.guess), CostMultiplier: t.costMultiplier,
		Lead: max(0, t.flow.virtualTime-t.applied-t.site.clock.systemVirtualTime) * t.flow.share,
		Sure: t.sure, Stranger: t.stranger, Fresh: t.level == fresh, Holds: !t.level.computes(), Ahead: t.overShare,
	}
	if r < rungs-1 {
		o.Size = seconds(r.most())
	}
	barrier, key := g.barrier(at, t)
	o.Barrier = barrier
	switch barrier {
	case KeyHolds:
		s := &t.reservations[key]
		o.Key, o.Have, o.Most = s.Bucket.Key, int(s.Bucket.Value.holds), max(int(s.Terms.Workers*float32(n.longest)), 1)
	case StrangersHold:
		o.Have, o.Most = t.site.strangerLong, max(n.longest/2, 1)
	case BehindOwn:
		for b := t.links[inLane].before; b != nil; b = b.links[inLane].before {
			o.Have++
		}
	case NoRoom, RoomForOthers:
		for i := range r + 1 {
			o.Have += g.load.computing[i]
		}
		o.Most = n.slots
	case NoWorker:
		o.Have, o.Most = g.busy, n.workers
		if r > lightRung {
			o.Have, o.Most = g.load.long(), n.longest
		}
	default: // it says all itself
	}
	if barrier != BehindOwn { // that says two things, not one of another
		o.Most = max(o.Most, o.Have) // there are more than may be where the number of workers was corrected meanwhile
	}
}

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
	case !g.hasWorker(r, false):
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
		return t.overShare && !t.stranger
	}
}

// ladderBarrier tells what keeps the head of a lane that would compute.
func (g *gate) ladderBarrier(at time.Duration, t *Ticket, r rung) Barrier {
	alike, over := 0, 0
	for i := range r + 1 {
		alike += g.load.computing[i]
		over += g.load.overShare[i]
	}
	if g.isHeldBack(at, t.site) {
		return SiteAhead
	}
	switch g.doors(at, r, alike, over).of(t) {
	case closed:
		if t.level == fresh {
			return Untried
		}
		return NoRoom
	case toUnderShare:
		if t.overShare {
			return RoomForOthers
		}
	case open:
	}
	switch {
	case !g.hasWorker(r, true):
		return NoWorker
	case !g.leaves(at, t):
		return LeavesCPU
	}
	return Turn
}
