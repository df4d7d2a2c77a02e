package limiter

import (
	"time"

	"tempomat/limiter/account"
)

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

// GateState says how the gate stands.
func (l *Limiter) GateState() GateState {
	g := l.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.limits
	workers, longest := n.workers, n.longest
	if !g.workers.areKnown() {
		workers, longest = 0, 0
	}
	return GateState{
		Workers: workers, WorkersBy: g.workers.source, Busy: g.busy,
		LongMost: longest, LongBusy: g.load.long(), Holding: g.load.holding, Orphans: g.orphans,
		Room: n.slots, Computing: g.load.computing, Ahead: g.load.overShare, Held: g.load.held,
		Probes: g.load.probing, Queued: g.all.n, Shed: g.shed,
		Clock: g.home.clock.systemVirtualTime, Utilisation: g.utilisation, Sites: g.siteStates(),
	}
}

// Shown is the state as it is shown: no count is above its own maximum. More may be in use than are
// known, as the number may have sunk since they went.
func (s GateState) Shown() GateState {
	if s.Workers == 0 {
		return s
	}
	s.Workers, s.LongMost = max(s.Workers, s.Busy), max(s.LongMost, s.LongBusy)
	return s
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
	r := &ClientRow{Known: c.known, Standing: c.standing}
	for ; c != nil; c = c.elsewhere {
		r.add(c)
	}
	row.Client = r
}

// add adds how the client stands at one site.
func (r *ClientRow) add(c *client) {
	r.Lead = max(r.Lead, c.lead())
	for l := c.lanes; l != nil; l = l.next {
		switch {
		case l.level.short():
			r.Light += int(l.n)
		case l.level.computes():
			r.Heavy += int(l.n)
		default:
			r.Waits += int(l.n)
		}
		if rank := l.first.rank - c.site.clock.systemVirtualTime; !l.first.stranger && (r.Rank == 0 || rank < r.Rank) {
			r.Rank = rank
		}
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
	// CPU is the CPU time that the key lately used, in CPU-seconds per second.
	CPU float64 `json:"cpu"`
	// Rate is the requests per second that the key lately made.
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
	// Known says that it is no stranger: it has been seen for a while.
	Known bool `json:"known"`
	// Standing multiplies its share.
	Standing float64 `json:"standing" fleet:"max"`
	// Lead is how far its service is ahead of the gate's clock, in CPU-seconds of
	// its own share: what it used beyond that while others wanted the machine.
	Lead float64 `json:"lead" fleet:"max"`
	// Rank is that of its next request in the queue, in virtual CPU-seconds beyond
	// the gate's clock; the least goes first. Zero if none waits, or a stranger's.
	Rank float64 `json:"rank" fleet:"min"`
	// Light, Heavy and Waits are how many of its requests wait: those up to 100 ms,
	// those above or unknown, and those that hold a worker and hardly compute. Of an
	// address without sessions they are those of the first of its User-Agents.
	Light int `json:"light"`
	Heavy int `json:"heavy"`
	Waits int `json:"waits"`
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
// come or go meanwhile may be missed. No lock is held while yield runs.
func (l *Limiter) Dump(now time.Time, class string, yield func(Row) bool) {
	l.table.All(l.since(now), class, func(s account.State, b *bucket) bool {
		return class == "" && l.table.Terms(s.Key.Class) == nil || yield(l.row(s, b))
	})
}

// Find returns the Row of one key, and whether it is known. A key that is not
// known has its whole burst, and an empty Row, but that a client that other instances
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
