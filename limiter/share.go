package limiter

import (
	"context"
	"time"
)

// Event is what a Charge tells of a request.
type Event uint8

// The events.
const (
	// Settled: the request is done, and this is what it cost. Of all keys but those
	// of external classes.
	Settled Event = iota
	// Accepted: the key does not delay it; the gate still may. Like Delayed, of keys of
	// external classes only, and told as the request comes.
	Accepted
	// Delayed: the key delays it until Until.
	Delayed
	// Rejected: it was refused on arrival, for a debt or because no more requests may wait for
	// one; refusals by the gate are not reported. It names all its known keys.
	Rejected
)

// Charge is what one request means to one of its keys.
type Charge struct {
	Key      Key
	Event    Event
	Cost     time.Duration // CPU time; of Settled
	Standing float64       // what the key's budget is multiplied by; of Settled; 0 is 1
	At       time.Time     // when this became known
	Received time.Time     // when the request came
	Until    time.Time     // when it went on, or will: later than Received if it had to wait
}

// NormalizedCost is what the charge counts for where standing is not known: of a key whose
// budget is four times as large, a quarter of the cost.
func (c *Charge) NormalizedCost() time.Duration {
	if c.Standing <= 0 {
		return c.Cost
	}
	return time.Duration(float64(c.Cost) / c.Standing)
}

// Sharer tells other sidecars what this one charged, and this one what they
// did. Decisions are always local: a Sharer only corrects the books, and one
// that is cut off from the others does nothing.
type Sharer interface { //nolint:interfacebloat // one thing that the limiter offers to, and the program runs
	// Offer takes a charge to share. It never blocks; false says that the
	// charge was dropped, which the Sharer counts.
	Offer(c Charge) bool
	// Carry takes a packet of package known, which goes to all other sidecars: soon,
	// perhaps twice, perhaps never. It never blocks; false says that there is no room.
	Carry(packet []byte) bool
	// Run exchanges charges until the context ends. It returns an error if it gave up before
	// that.
	Run(ctx context.Context, in Sink) error
	// Status is its state. It may be called at any time, also before Run.
	Status() SharingStatus
}

// Sink is where a Sharer reports. *Limiter is one. All may be called at any
// time from any goroutine.
type Sink interface { //nolint:interfacebloat // all that a peer may tell
	// Debit charges a key with what others spent: relative, add it once.
	Debit(now time.Time, c Charge)
	// Raise makes a key owe until the given time: absolute, only ever later.
	Raise(now time.Time, k Key, until time.Time)
	// SetReplicas says among how many sidecars, this one included, bursts are divided:
	// each key can save up so many times less here. At first it is one.
	SetReplicas(now time.Time, sidecars int)
	// Learn takes a packet that the Sharer received. Any host may have sent it.
	Learn(now time.Time, packet []byte)
}

var _ Sink = (*Limiter)(nil)

// Debit implements Sink.
func (l *Limiter) Debit(now time.Time, c Charge) {
	at := l.since(now)
	l.table.Charge(at, c.Key, c.Cost.Seconds())
}

// Raise implements Sink. The debt is bounded as every debt is.
func (l *Limiter) Raise(now time.Time, k Key, until time.Time) {
	at := l.since(now)
	l.table.Owe(at, k, l.since(until))
}

// SetReplicas implements Sink.
func (l *Limiter) SetReplicas(now time.Time, sidecars int) {
	l.policyMu.Lock()
	defer l.policyMu.Unlock()
	if l.sidecars == max(1, sidecars) {
		return
	}
	l.sidecars = max(1, sidecars)
	l.applyLocked(now, l.policy.Load().Policy)
}

// Learn implements Sink.
func (l *Limiter) Learn(now time.Time, packet []byte) { l.gate.known.Learn(now, packet) }

// offer shares what a settled request was charged.
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

// announce shares what was decided of a request as it came: with those who say
// how the external classes stand, and with all if it was refused.
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

// SharingStatus is how sharing goes, in words that all Sharers have in common: metrics,
// the log and the doctor go by it. Totals are since the Sharer was made, and zero where it
// has none such.
type SharingStatus struct {
	Up       map[string]bool // what it depends on, by name, and whether it is there
	Peers    int             // other instances that are live
	Sent     uint64          // messages, or bytes, or calls: what the Sharer sends
	Received uint64          // what it learns by: orders, or bytes, or keys that were found to owe
	Dropped  uint64          // charges that others were never told of
	Failed   uint64          // calls and messages that failed
	Unsound  uint64          // invalid messages
	Detail   any             // the Sharer's own state, as the doctor shows it: a document of JSON
}
