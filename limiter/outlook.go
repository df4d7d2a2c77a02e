package limiter

import (
	"cmp"
	"slices"
	"time"

	"tempomat/limiter/account"
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
	Have, Most int
	Paid       time.Duration // until the Key's debt is paid, of Owes
	Lead       float64       // by how many CPU-seconds its client is ahead of its share; of strangers, all of them
	Guess      time.Duration // what it will likely cost
	Waited     time.Duration
	Size       time.Duration // the most of those that it counts among; 0: there are no longer ones
	Sure       bool          // the Guess rests on answers
	Stranger   bool          // it takes the turn of all strangers together
}

// Outlooks returns what each of some requests has ahead of it, and why it waits. It changes nothing.
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

// roomOutlook is the outlook of a request in the waiting room.
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
		Waits: true, Site: t.site.name, Waited: at - t.asked, Guess: seconds(t.guess),
		Lead: max(0, t.flow.virtualTime-t.applied-t.site.clock.systemVirtualTime) * t.flow.share,
		Sure: t.sure, Stranger: t.stranger,
	}
	if r < rungs-1 {
		o.Size = seconds(r.most())
	}
	barrier, key := g.barrier(at, t)
	o.Barrier = barrier
	switch barrier {
	case KeyHolds:
		s := &t.reservations[key]
		o.Key, o.Have, o.Most = s.Bucket.Key, int(s.Bucket.Value.holds), max(int(s.Terms.Workers*float32(n.longMost)), 1)
	case StrangersHold:
		o.Have, o.Most = t.site.strangerLong, max(n.longMost/2, 1)
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
			o.Have, o.Most = g.load.long(), n.longMost
		}
	default: // it says all itself
	}
	if barrier != BehindOwn { // that says two things, not one of another
		o.Most = max(o.Most, o.Have) // there are more than may be where the number of workers was corrected in the meantime
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

// isOwnDoing reports whether a request waits for what its client's own requests have or had.
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

// ladderBarrier is what keeps the head of a lane that would compute.
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

// GateState is what the doctor shows of the gate. Every count is of requests.
type GateState struct {
	Workers   int    `json:"workers"`   // most at the backend, as far as is known; 0: any number
	WorkersBy string `json:"workersBy"` // what tells that
	Busy      int    `json:"busy"`      // at the backend
	LongMost  int    `json:"longMost"`  // most at the backend of the longest size; of the other sizes that are not short, somewhat more. 0: any number
	LongBusy  int    `json:"longBusy"`  // at the backend and not short
	Holding   int    `json:"holding"`   // of these, those that only hold a worker: they hardly compute
	Orphans   int    `json:"orphans"`   // at the backend though their client has left
	// Room is how many requests of a size and shorter may compute at a time, and
	// Computing how many of each size do: up to 25, 100, 400 ms, 1.6, 6.4, 25.6 s, and more.
	// Ahead are those of them whose clients have had more than their share, and Held
	// how many hold a worker for so long, in CPU-seconds.
	Room        int        `json:"room"`
	Computing   [rungs]int `json:"computing"`
	Ahead       [rungs]int `json:"ahead"`
	Held        [rungs]int `json:"held"`
	Probes      int        `json:"probes"`                        // at the backend, of a kind that nobody knows: tried beside the others
	Queued      int        `json:"queued"`                        // waiting
	Clock       float64    `json:"clock" fleet:"max"`             // virtual CPU-seconds per unit of share
	Utilisation float64    `json:"utilisation" fleet:"mean Room"` // of the CPUs, 0 to 1, as last measured; negative: never
	Shed        uint64     `json:"shed"`                          // rejected because the queue was full, since the start
	// Sites are those that are told apart, and the others; nil: none are. If there are such,
	// Clock is that of the others.
	Sites []SiteState `json:"sites,omitempty"`
}

// GateState is the state of the gate.
func (l *Limiter) GateState() GateState {
	g := l.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.limits
	// No count is above its maximum: after the number of workers fell, more may still be in use.
	workers, longMost := max(n.workers, g.busy), max(n.longMost, g.load.long())
	if !g.workers.areKnown() {
		workers, longMost = 0, 0
	}
	return GateState{
		Workers: workers, WorkersBy: g.workers.source, Busy: g.busy,
		LongMost: longMost, LongBusy: g.load.long(), Holding: g.load.holding, Orphans: g.orphans,
		Room: n.slots, Computing: g.load.computing, Ahead: g.load.overShare, Held: g.load.held,
		Probes: g.load.probing, Queued: g.all.n, Shed: g.shed,
		Clock: g.home.clock.systemVirtualTime, Utilisation: g.utilisation, Sites: g.siteStates(),
	}
}

// fill adds what the gate knows of a key that has requests, or is a client's.
func (g *gate) fill(row *Row, b *bucket) {
	c := b.Value.client.Load()
	if c == nil && row.Running == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	row.Holds, row.Orphans = int(b.Value.holds), int(b.Value.orphans)
	if c == nil {
		return
	}
	row.Client = &ClientRow{Known: c.known, Standing: c.standing}
	for ; c != nil; c = c.elsewhere {
		row.Client.Lead = max(row.Client.Lead, c.lead())
	}
}

// Row is what the doctor shows of one key.
type Row struct {
	Class string `json:"class" fleet:"key"`
	ID    string `json:"id" fleet:"key"`
	// Proof is how it was found that the key's robot is the one that it says it is, and which list
	// of its addresses there is; empty: the class is not that of robots. The limiter knows nothing of it.
	Proof string `json:"proof,omitempty"`
	// Level is the key's balance in CPU-seconds: above zero credit, below debt.
	Level float64 `json:"level" fleet:"min"`
	// Wait is the average time in seconds that the key's latest requests were
	// delayed, for its debt or at the gate, also in vain: of the first ten all count
	// alike, after that each one moves it by a tenth, as in the original. Those that
	// wait at the gate count with what they have waited so far.
	Wait float64 `json:"wait" fleet:"max"`
	// CPU is the CPU time that the key recently used, in CPU-seconds per second.
	CPU float64 `json:"cpu"`
	// Rate is the requests per second that the key recently made.
	Rate float64 `json:"rate"`
	// Last is how long ago the key was last used, in seconds.
	Last float64 `json:"last" fleet:"min"`
	// Paid is in how many seconds its debt will be paid, if it asks for nothing more.
	Paid float64 `json:"paid" fleet:"max"`
	// Running counts its requests at the backend, Waiting those that wait at the gate or
	// for a debt.
	Running int `json:"running"`
	Waiting int `json:"waiting"`
	// Holds counts those at the backend that are not short, and Orphans those whose
	// client has left.
	Holds   int `json:"holds"`
	Orphans int `json:"orphans"`
	// Client is how the key stands at the gate, if it is a client's.
	Client *ClientRow `json:"client,omitempty"`
}

// ClientRow is what the doctor shows of a client at the gate.
type ClientRow struct {
	// Known is true if it isn't a stranger: it has been seen for a while.
	Known bool `json:"known"`
	// Standing multiplies its share.
	Standing float64 `json:"standing" fleet:"max"`
	// Lead is how far its service is ahead of the gate's clock, in CPU-seconds of
	// its own share: what it used beyond that while others wanted the machine.
	Lead float64 `json:"lead" fleet:"max"`
}

// ClassInfo is a class and what each of its keys may use.
type ClassInfo struct {
	Name   string
	Budget Budget
}

// Classes returns the classes of the policy in force, in configured order.
func (l *Limiter) Classes() []ClassInfo {
	return l.policy.Load().Classes
}

// Dump calls yield with a Row for every key of a class (of all configured
// classes if class is empty), in no order, until yield returns false. Keys that
// come or go in the meantime may be missed. No lock is held while yield runs.
func (l *Limiter) Dump(now time.Time, class string, yield func(Row) bool) {
	l.table.All(l.since(now), class, func(s account.State, b *bucket) bool {
		return class == "" && l.table.Terms(s.Key.Class) == nil || yield(l.row(s, b))
	})
}

// Find returns the Row of one key, and whether it is known. A key that is not
// known has its whole burst, and an empty Row, except that a client that other instances
// know is no stranger.
func (l *Limiter) Find(now time.Time, k Key) (r Row, found bool) {
	at := l.since(now)
	s, b := l.table.Find(at, k)
	if b != nil {
		r, found = l.row(s, b), true
	}
	if c := l.policy.Load().Classes; len(c) > 0 && c[0].Name == k.Class && l.gate.known.Has(at, k.ID) {
		if r.Client == nil {
			r.Client = &ClientRow{Standing: 1}
		}
		r.Client.Known = true
	}
	return r, found
}

// row is that of a key whose account stands so.
func (l *Limiter) row(s account.State, b *bucket) Row {
	r := Row{
		Class: s.Key.Class, ID: s.Key.ID, Level: s.Level,
		Wait: s.Wait, CPU: s.CPU, Rate: s.Requests, Last: s.Idle.Seconds(), Paid: s.Paid.Seconds(),
		Running: s.Running, Waiting: s.Waiting,
	}
	l.gate.fill(&r, b)
	return r
}
