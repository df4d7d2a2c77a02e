package limiter

import (
	"context"
	"time"
)

// Event is what happened to the request that a Charge reports.
type Event uint8

// The events.
const (
	// Settled: the request has run, and cost Cost. It is sent for all keys except those of external classes.
	Settled Event = iota
	// Accepted: the key doesn't delay the request, although the gate still may. Accepted and Delayed are sent
	// when the request arrives, and only for keys of external classes.
	Accepted
	// Delayed: the key delays the request until Until.
	Delayed
	// Rejected: the request was refused on arrival, because of a debt or because too many requests already wait
	// for debts to be paid. It is sent for all keys of the request that have an account. Refusals by the gate
	// aren't sent.
	Rejected
)

// Charge reports one request to other instances, for one of its keys.
type Charge struct {
	Key      Key
	Event    Event
	Cost     time.Duration // for Settled: CPU time
	Standing float64       // for Settled: the factor by which the key's budget is multiplied; 0 means 1
	At       time.Time     // when the event happened
	Received time.Time     // when the request arrived
	Until    time.Time     // when the request may go, or could go; later than Received if it had to wait
}

// NormalizedCost returns the cost divided by the standing, for receivers that don't know the standing. If a
// key's budget is four times the usual one, NormalizedCost is a quarter of the cost.
func (c *Charge) NormalizedCost() time.Duration {
	if c.Standing <= 0 {
		return c.Cost
	}
	return time.Duration(float64(c.Cost) / c.Standing)
}

// Sharer exchanges charges with other instances. Decisions are always local; a Sharer only corrects the
// accounts. While it can't reach the other instances, it corrects nothing.
type Sharer interface { //nolint:interfacebloat // the limiter and the program each need a part of it
	// Offer queues a charge to be shared, and never blocks. If there is no room, Offer returns false, and the
	// Sharer counts the dropped charge.
	Offer(c Charge) bool
	// Carry sends a packet of package known to all other instances. The packet may arrive late, twice or never.
	// Carry never blocks, and returns false if there is no room in its queue.
	Carry(packet []byte) bool
	// Run exchanges charges until the context ends. It returns an error if it stops earlier.
	Run(ctx context.Context, in Sink) error
	// Status returns the Sharer's state. It may be called at any time, even before Run.
	Status() SharingStatus
}

// Sink receives what other instances report to a Sharer. *Limiter implements it. All methods may be called at
// any time from any goroutine.
type Sink interface { //nolint:interfacebloat // everything that another instance may report
	// Debit charges a key for its CPU time at other instances. The Sharer must report each charge only once.
	Debit(now time.Time, c Charge)
	// Raise keeps a key in debt until the given time. If the key owes for longer, Raise changes nothing.
	Raise(now time.Time, k Key, until time.Time)
	// SetInstances sets the number of instances, including this one. Each key's burst is divided by this
	// number, because every instance lets the key save that much. The initial number is one.
	SetInstances(now time.Time, instances int)
	// Learn handles a packet that the Sharer received. Any host may have sent the packet.
	Learn(now time.Time, packet []byte)
}

var _ Sink = (*Limiter)(nil)

// Debit implements Sink.
func (l *Limiter) Debit(now time.Time, c Charge) {
	at := l.since(now)
	l.table.Charge(at, c.Key, c.Cost.Seconds())
}

// Raise implements Sink. The debt has the same limit as any other debt.
func (l *Limiter) Raise(now time.Time, k Key, until time.Time) {
	at := l.since(now)
	l.table.Owe(at, k, l.since(until))
}

// SetInstances implements Sink.
func (l *Limiter) SetInstances(now time.Time, instances int) {
	l.policyMu.Lock()
	defer l.policyMu.Unlock()
	if l.instances == max(1, instances) {
		return
	}
	l.instances = max(1, instances)
	l.applyLocked(now, l.policy.Load().Policy)
}

// Learn implements Sink.
func (l *Limiter) Learn(now time.Time, packet []byte) { l.gate.known.Learn(now, packet) }

// offer shares what a settled request cost.
func (l *Limiter) offer(now time.Time, t *Ticket, cost time.Duration) {
	if l.sharer == nil {
		return
	}
	c := Charge{Event: Settled, Cost: cost, At: now, Received: l.epoch.Add(t.came)}
	c.Until = c.Received
	if !t.verdict.Shadow {
		c.Until = c.Received.Add(t.verdict.Wait)
	}
	t.each(func(s *reservation) {
		if c.Key, c.Standing = s.Bucket.Key, s.Factor; !s.Terms.External && !s.Terms.LocalOnly {
			l.sharer.Offer(c)
		}
	})
}

// announce shares the decision about a request that arrived. It does this for the keys of external classes, and
// for all keys if the request was refused.
func (l *Limiter) announce(now time.Time, t *Ticket, e Event) {
	if l.sharer == nil {
		return
	}
	t.each(func(s *reservation) {
		if s.Terms.LocalOnly || e != Rejected && !s.Terms.External {
			return
		}
		c := Charge{Key: s.Bucket.Key, Event: e, At: now, Received: now, Until: now}
		if e == Accepted && s.Until > t.came {
			c.Event, c.Until = Delayed, l.epoch.Add(s.Until)
		}
		l.sharer.Offer(c)
	})
}

// SharingStatus is the state of sharing, in terms that all Sharers have in common. Metrics, the log and the
// doctor show it. Totals count from when the Sharer was made; a total that doesn't apply to a Sharer is zero.
type SharingStatus struct {
	Up       map[string]bool // for each service that the Sharer depends on, by name: whether it is available
	Peers    int             // other instances that are reachable
	Sent     uint64          // messages, bytes or calls, depending on the Sharer
	Received uint64          // orders, bytes, or keys that were found in debt, depending on the Sharer
	Dropped  uint64          // charges that weren't sent
	Failed   uint64          // calls and messages that failed
	Unsound  uint64          // invalid messages
	Detail   any             // the Sharer's own state, shown by the doctor as JSON
}
