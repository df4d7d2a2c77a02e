package limiter

import (
	"context"
	"time"
)

// Charge is CPU time that a key was charged.
type Charge struct {
	Key  Key
	Cost time.Duration
	At   time.Time
}

// Sharer tells other sidecars what this one charged, and this one what they
// did. Decisions are always local: a Sharer only corrects the books, and one
// that is cut off from its peers does nothing.
type Sharer interface {
	// Offer takes a charge to share. It never blocks; false says that the
	// charge was dropped, which the Sharer counts.
	Offer(c Charge) bool
	// Run exchanges charges until the context ends.
	Run(ctx context.Context, in Sink) error
}

// Sink is where a Sharer reports. *Limiter is one. Both may be called at any
// time from any goroutine.
type Sink interface {
	// Debit charges a key with what peers spent: relative, add it once.
	Debit(now time.Time, c Charge)
	// Raise makes a key owe until the given time: absolute, only ever later.
	Raise(now time.Time, k Key, until time.Time)
}

var _ Sink = (*Limiter)(nil)

// Debit implements Sink.
func (l *Limiter) Debit(now time.Time, c Charge) {
	at := l.since(now)
	l.table.with(at, c.Key, func(b *bucket) { b.chargeLocked(at, c.Cost.Seconds()) })
}

// Raise implements Sink. The debt is bounded as every debt is.
func (l *Limiter) Raise(now time.Time, k Key, until time.Time) {
	at := l.since(now)
	l.table.with(at, k, func(b *bucket) { b.oweLocked(at, l.since(until)) })
}

// offer shares what a settled request was charged.
func (l *Limiter) offer(now time.Time, t *Ticket, cost time.Duration) {
	if l.sharer == nil {
		return
	}
	t.each(func(s *slot) {
		l.sharer.Offer(Charge{Key: s.bucket.key, Cost: cost, At: now})
	})
}
