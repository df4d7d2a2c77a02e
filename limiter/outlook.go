package limiter

import (
	"slices"
	"time"
)

// Outlook is what a request that waits has before it, at one moment.
type Outlook struct {
	Waits bool   // it does; else the rest says nothing
	Site  string // the name of its site; empty: it is for no named one
	// Before is how many go before it, as it looks now: without those that come yet, and if
	// what ends next is of its own size. -1: unknown, as too many wait.
	Before int
	Barrier
	// Key is the one whose debt, or whose workers, the Barrier is about, if any.
	Key Key
	// Have of Most is how many of what the Barrier counts there are, and may be; of
	// BehindOwn, how many of its client's own wait before it.
	Have, Most     int
	Paid           time.Duration // until the Key's debt is paid, of Owes
	Lead           float64       // by how many CPU-seconds its client is ahead of its share; of strangers, all of them
	CostMultiplier float64       // what it counts for more than once is, as its keys owe: 2 to 18; 0: not judged yet
	Guess          time.Duration // what it will likely cost
	Waited         time.Duration
	Size           time.Duration // the most of those that it counts among; 0: there are no longer ones
	Sure           bool          // the Guess rests on answers
	Stranger       bool          // it takes the turn of all strangers together
	Fresh          bool          // nobody knows what it costs
	Holds          bool          // it will likely hold a worker and hardly compute
	Ahead          bool          // its client had more than its share as it asked
}

// mostReplicated is how many may wait if the gate is to be copied: it is locked meanwhile.
const mostReplicated = 2000

// Outlooks tells what each of some requests has before it, and why it waits. The
// running requests are those at the backend, as far as the caller knows them: whose
// end makes room. It changes nothing. The gate is locked for about half a millisecond
// if 1000 wait; what is to be seen is then looked for on a copy.
func (l *Limiter) Outlooks(now time.Time, waiting, running []*Ticket) []Outlook {
	at := l.since(now)
	all := make([]Outlook, len(waiting))
	for i, t := range waiting {
		all[i].Before = -1
		l.roomOutlook(at, t, &all[i])
	}
	if slices.IndexFunc(all, func(o Outlook) bool { return !o.Waits }) < 0 {
		return all
	}
	s := l.gate.snapshot(running)
	if s == nil {
		l.gate.outlooks(at, waiting, all)
		return all
	}
	s.meetBuckets()
	r := s.replica()
	of := make(map[level][]int)
	for i, t := range waiting {
		if c := r.tickets[t]; c != nil {
			r.gate.outlook(at, c, &all[i])
			of[c.level] = append(of[c.level], i)
		}
	}
	for at0, wanted := range of {
		r := s.replica()
		order := r.play(at, at0)
		for _, i := range wanted {
			if n, ok := order[r.tickets[waiting[i]]]; ok {
				all[i].Before = n
			}
		}
	}
	return all
}

// outlooks tells of requests where too many wait to copy the gate.
func (g *gate) outlooks(at time.Duration, waiting []*Ticket, all []Outlook) {
	for i, t := range waiting {
		g.mu.Lock()
		if t.phase == queued {
			g.outlook(at, t, &all[i])
		}
		g.mu.Unlock()
	}
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
	for before := t.prev; before != nil; before = before.prev {
		o.Before++
		o.Paid += q.bucket.Earns(before.guess)
	}
}

func seconds(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }

// outlook fills in what keeps a request that waits at the gate. The gate's lock is held,
// or it is a replica.
func (g *gate) outlook(at time.Duration, t *Ticket, o *Outlook) {
	r, v := t.level.rung(), g.view(t.site)
	*o = Outlook{
		Waits: true, Site: t.site.name, Before: -1, Waited: at - t.asked, Guess: seconds(t.guess), CostMultiplier: t.costMultiplier,
		Lead: max(0, t.flow.virtualTime-t.applied-t.site.clock.systemVirtualTime) * t.flow.share,
		Sure: t.sure, Stranger: t.stranger, Fresh: t.level == fresh, Holds: !t.level.computes(), Ahead: t.ahead,
	}
	if r < rungs-1 {
		o.Size = seconds(r.most())
	}
	barrier, key := g.barrier(at, t)
	o.Barrier = barrier
	switch barrier {
	case KeyHolds, Orphans:
		s := &t.reservations[key]
		o.Key, o.Have, o.Most = s.Bucket.Key, int(s.Bucket.Value.holds), max(int(s.Terms.Workers*float32(v.longest(&g.limits))), 1)
		if o.Barrier == Orphans {
			o.Have, o.Most = int(s.Bucket.Value.orphans), max(o.Most/2, fewOrphans)
		}
	case StrangersHold:
		o.Have, o.Most = t.site.strangerLong, max(v.longest(&g.limits)/2, 1)
	case SiteHolds:
		o.Have, o.Most = t.site.long, g.mostOf(&v, 1)
	case BehindOwn:
		for b := t.before; b != nil; b = b.before {
			o.Have++
		}
	case NoRoom, RoomForOthers:
		for i := range r + 1 {
			o.Have += v.load.computing[i]
		}
		o.Most = v.n
	case NoWorker:
		o.Have, o.Most = v.busy, v.workers
		if r > lightRung {
			o.Have, o.Most = from(&v.load.held, r), v.mostOf(&g.limits, r)
		}
	default: // it says all itself
	}
	if barrier != BehindOwn && barrier != Orphans { // these say two things, not one of another
		o.Most = max(o.Most, o.Have) // there are more than may be where the number of workers was corrected meanwhile
	}
}
