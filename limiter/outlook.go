package limiter

import (
	"cmp"
	"slices"
	"time"

	"tempomat/limiter/account"
)

// Outlook describes why a request waits at the moment, and what is ahead of it.
type Outlook struct {
	Waits bool   // the request waits; otherwise the other fields are meaningless
	Site  string // the name of its site; empty if the request is for no named site
	// Before is roughly how many requests of the same size go before this one, by their current ranks. Requests
	// that arrive later may also go before it, but aren't counted.
	Before int
	Barrier
	// Key is the key whose debt or workers cause the Barrier, if any.
	Key Key
	// Have is the current number of the requests that the Barrier counts, and Most is the largest number
	// allowed. For BehindOwn, Have is how many requests of the same client are in front of this one.
	Have, Most int
	Paid       time.Duration // for Owes: the time until the Key's debt is paid
	Lead       float64       // CPU-seconds that its client has had beyond its share; for a stranger, those of all strangers together
	Guess      time.Duration // the likely cost
	Waited     time.Duration
	Size       time.Duration // the upper bound of the size with which it queues; 0: the longest size
	Sure       bool          // the Guess is based on earlier answers
	Stranger   bool          // it shares the turn of all strangers
}

// Outlooks returns, for each of the given requests, what is ahead of it and why it waits. It changes nothing.
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

// places returns how many requests of a level go before each one, by their current ranks. Requests behind the
// head of a lane get the rank that they would have after those in front of them have been charged.
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

// roomOutlook fills in the outlook of a request in the waiting room.
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

// outlook fills in why a request waits at the gate. The caller must hold the gate's lock.
func (g *gate) outlook(at time.Duration, t *Ticket, o *Outlook) {
	r, n := t.level.rung(), &g.limits
	*o = Outlook{
		Waits: true, Site: t.site.name, Waited: at - t.asked, Guess: seconds(t.guess),
		Lead: t.lead(), Sure: t.sure, Stranger: t.stranger,
	}
	if r < rungs-1 {
		o.Size = seconds(r.most())
	}
	barrier, key := g.barrier(at, t)
	o.Barrier = barrier
	switch barrier {
	case KeyHolds:
		s := &t.reservations[key]
		o.Key, o.Have, o.Most = s.Bucket.Key, g.counted(t, key), max(int(s.Terms.Workers*float32(n.longMost)), 1)
		if t.uploads && g.uploadsWait(t, patience) {
			o.Have, o.Most = t.client.address.uploads, t.client.address.uploads
		}
	case StrangersHold:
		o.Have, o.Most = g.strangersHold(t)
	case BehindOwn:
		for b := t.links[inLane].before; b != nil; b = b.links[inLane].before {
			o.Have++
		}
	case NoRoom, RoomForOthers:
		o.Have, o.Most = upTo(&g.load.computing, 0, r), n.slots
	case NoWorker:
		o.Have, o.Most = g.busy, n.workers
		if r > lightRung {
			o.Have, o.Most = g.load.long(), g.mostLong(r)
		}
	default: // the barrier has no counts
	}
	if barrier != BehindOwn { // for BehindOwn, Most doesn't limit Have
		o.Most = max(o.Most, o.Have) // the number of workers may have been corrected since, so Have may exceed Most
	}
}

// barrier returns why a request waits, and the index in the reservations of the key that is the cause. It makes
// the same checks as next, in the same order.
func (g *gate) barrier(at time.Duration, t *Ticket) (b Barrier, key int) {
	if t.heap == nil {
		return BehindOwn, 0
	}
	probe := false // it may start only as a probe (see toProbe)
	if b, key = g.heldBy(t, false); b != nothing {
		if !g.mayHold(t, true) {
			return b, key
		}
		probe = true
	}
	switch r := t.level.rung(); {
	case probe:
		return CostUnknown, 0
	case t.level.computes():
		return g.ladderBarrier(at, t, r), 0
	case !g.hasWorker(r, false):
		return NoWorker, 0
	}
	return Turn, 0
}

// isOwnDoing reports whether a request waits because of other requests of its own client.
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

// ladderBarrier returns why the head of a lane that would compute waits.
func (g *gate) ladderBarrier(at time.Duration, t *Ticket, r rung) Barrier {
	if g.isHeldBack(at, t.site, r) {
		return SiteAhead
	}
	switch g.doors(at, r, upTo(&g.load.computing, 0, r), upTo(&g.load.overShare, 0, r)).of(t) {
	case closed:
		if t.level == fresh {
			return CostUnknown
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
	case !g.leavesCPU(at, t):
		return LeavesCPU
	}
	return Turn
}

// GateState is the state of the gate, as shown by the doctor. All counts are numbers of requests.
type GateState struct {
	Workers   int    `json:"workers"`   // how many requests the backend can run at once, as far as is known; 0: any number
	WorkersBy string `json:"workersBy"` // the source of that number
	Busy      int    `json:"busy"`      // at the backend
	LongMost  int    `json:"longMost"`  // how many of the longest size may be at the backend; of other sizes that aren't short, a few more; 0: any number
	LongBusy  int    `json:"longBusy"`  // at the backend and not short
	Holding   int    `json:"holding"`   // those of LongBusy that hold a worker and compute little
	Orphans   int    `json:"orphans"`   // at the backend although their client has disconnected
	// Room is how many requests up to a given size may compute at once. Computing is how many
	// requests of each size are computing; the sizes are up to 25 ms, 100 ms, 400 ms, 1.6 s, 6.4 s
	// and 25.6 s, and longer. Ahead counts those in Computing whose clients have exceeded their
	// share. Held counts requests by how long they hold a worker, converted to CPU-seconds.
	Room        int        `json:"room"`
	Computing   [rungs]int `json:"computing"`
	Ahead       [rungs]int `json:"ahead"`
	Held        [rungs]int `json:"held"`
	Probes      int        `json:"probes"`                        // at the backend as probes, outside the ladder, because their kind is unknown
	Queued      int        `json:"queued"`                        // waiting
	Clock       float64    `json:"clock" fleet:"max"`             // virtual CPU-seconds per unit of share
	Utilisation float64    `json:"utilisation" fleet:"mean Room"` // part of the CPUs in use, 0 to 1, as last measured; negative: never measured
	Shed        uint64     `json:"shed"`                          // rejected because the queue was full, since the start
	// Sites are the named sites, and one entry for all other requests. It is nil if no sites are named. If it
	// isn't nil, Clock is the clock of the entry for all other requests.
	Sites []SiteState `json:"sites,omitempty"`
}

// GateState returns the state of the gate.
func (l *Limiter) GateState() GateState {
	g := l.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.limits
	// Show no count above its maximum: after the number of workers has fallen, more may still be in use.
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

// fill adds what the gate knows about a key, if the key has requests or is a client.
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

// Row is the state of one key, as shown by the doctor.
type Row struct {
	Class string `json:"class" fleet:"key"`
	ID    string `json:"id" fleet:"key"`
	// Proof says how the robot's identity was proven, and whether there is a list of its addresses. It is
	// empty if the key isn't a robot. The limiter doesn't set it.
	Proof string `json:"proof,omitempty"`
	// Level is the key's balance in CPU-seconds: credit above zero, debt below.
	Level float64 `json:"level" fleet:"min"`
	// Wait is the average time in seconds for which the key's latest requests were delayed by its debt or at
	// the gate. Requests that never ran also count. The first ten count equally; each later one moves the
	// average by a tenth, as in the original Smockron. Requests that are waiting at the gate count with their
	// wait so far.
	Wait float64 `json:"wait" fleet:"max"`
	// CPU is the CPU time that the key recently used, in CPU-seconds per second.
	CPU float64 `json:"cpu"`
	// Rate is how many requests per second the key recently made.
	Rate float64 `json:"rate"`
	// Last is how long ago the key was last used, in seconds.
	Last float64 `json:"last" fleet:"min"`
	// Paid is how many seconds it takes until the key's debt is paid if it makes no more requests.
	Paid float64 `json:"paid" fleet:"max"`
	// Running counts the key's requests at the backend. Waiting counts those that wait at the gate, or until a
	// debt is paid.
	Running int `json:"running"`
	Waiting int `json:"waiting"`
	// Holds counts its requests at the backend that aren't short. Orphans counts those whose client has
	// disconnected.
	Holds   int `json:"holds"`
	Orphans int `json:"orphans"`
	// Client is the key's state at the gate, if it is a client there.
	Client *ClientRow `json:"client,omitempty"`
}

// ClientRow is the state of a client at the gate, as shown by the doctor.
type ClientRow struct {
	// Known is true if the client isn't a stranger.
	Known bool `json:"known"`
	// Standing multiplies the client's share.
	Standing float64 `json:"standing" fleet:"max"`
	// Lead is how far the client is ahead of the gate's clock, in CPU-seconds: the CPU time that it has used
	// beyond its share while other clients wanted the CPUs.
	Lead float64 `json:"lead" fleet:"max"`
}

// ClassInfo is a class and what each of its keys may use.
type ClassInfo struct {
	Name   string
	Budget Budget
}

// Classes returns the classes of the current policy, in configured order.
func (l *Limiter) Classes() []ClassInfo {
	return l.policy.Load().Classes
}

// Dump calls yield with a Row for every key of a class (or of all configured classes if class is empty), in
// no particular order, until yield returns false. Keys that appear or disappear during the call may be
// missed. No lock is held while yield runs.
func (l *Limiter) Dump(now time.Time, class string, yield func(Row) bool) {
	l.table.All(l.since(now), class, func(s account.State, b *bucket) bool {
		return class == "" && l.table.Terms(s.Key.Class) == nil || yield(l.row(s, b))
	})
}

// Find returns the Row of one key, and whether the key has an account. A key without an account has its full
// burst; its Row is empty, except that Client says whether the client is known.
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

// row makes the Row of a key from its account's state.
func (l *Limiter) row(s account.State, b *bucket) Row {
	r := Row{
		Class: s.Key.Class, ID: s.Key.ID, Level: s.Level,
		Wait: s.Wait, CPU: s.CPU, Rate: s.Requests, Last: s.Idle.Seconds(), Paid: s.Paid.Seconds(),
		Running: s.Running, Waiting: s.Waiting,
	}
	l.gate.fill(&r, b)
	return r
}
