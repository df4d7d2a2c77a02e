package limiter

import (
	"sync"
	"time"
)

// state is where a request is in its life.
type state uint8

const (
	waiting state = iota // in a queue of the waiting room
	running              // admitted, and charged at least with its guess
	settled              // charged with its cost; its response may be held
	over                 // gone, or refused
)

// Ticket is one request's place in the limiter. Arrive, Settle and Leave are
// called in turn by whoever serves the request, Progress and Advance by anybody
// at any time.
type Ticket struct {
	decided chan struct{} // closed when verdict stands
	verdict Verdict       // written before that

	mu      sync.Mutex // guards the following
	state   state
	guess   float64
	charged float64 // CPU-seconds: the guess, then more as it runs
	n       int
	slots   [MaxKeys]slot

	entered bool // the waiting room, ever; only the request's own goroutine asks
	place        // in the waiting room, which guards it
}

// slot is what one key has to do with the request.
type slot struct {
	bucket *bucket
	moved  float64       // what the charges really took, to give back no more
	mark   float64       // the bucket's total just after they were taken
	waited time.Duration // time that the request waited for this key
}

// Decided is closed when the Verdict stands.
func (t *Ticket) Decided() <-chan struct{} { return t.decided }

// Verdict is valid once Decided is closed.
func (t *Ticket) Verdict() Verdict { return t.verdict }

// client is the bucket whose held requests are counted together; nil if its
// class has just been removed.
func (t *Ticket) client() *bucket { return t.slots[0].bucket }

// each calls f for the slots whose bucket is known.
func (t *Ticket) each(f func(*slot)) {
	for i := range t.slots[:t.n] {
		if t.slots[i].bucket != nil {
			f(&t.slots[i])
		}
	}
}

// pin finds the buckets that are known already, so that a request that will be
// refused makes none.
func (t *Ticket) pin(table *table, p *policy, keys []Key) {
	for _, k := range keys {
		if p.class(k.Class) != nil && t.n < MaxKeys {
			t.slots[t.n].bucket = table.pin(k)
			t.n++
		}
	}
}

// make adds the buckets that pin did not find.
func (t *Ticket) make(at time.Duration, table *table, p *policy, keys []Key) {
	i := 0
	for _, k := range keys {
		if p.class(k.Class) == nil || i == t.n {
			continue
		}
		if t.slots[i].bucket == nil {
			t.slots[i].bucket = table.pinOrMake(at, k)
		}
		i++
	}
}

func (t *Ticket) unpin() {
	t.each(func(s *slot) { s.bucket.unpin() })
}

// adjustLocked makes x CPU-seconds of what was charged so far.
func (t *Ticket) adjustLocked(at time.Duration, x float64) {
	diff := x - t.charged
	switch {
	case diff > 0:
		t.each(func(s *slot) { s.charge(at, diff) })
	case diff < 0:
		part := -diff / t.charged
		t.each(func(s *slot) { s.giveBack(at, s.moved*part) })
	}
	t.charged = x
}

// reserve takes the first charge, which is the request's place among all that
// the key is charged with.
func (s *slot) reserve(at time.Duration, x float64) {
	b := s.bucket
	b.mu.Lock()
	defer b.mu.Unlock()
	s.moved = b.chargeLocked(at, x)
	s.mark = b.total
}

func (s *slot) charge(at time.Duration, x float64) {
	moved := s.bucket.charge(at, x)
	s.moved += moved
	s.mark += moved
}

func (s *slot) giveBack(at time.Duration, x float64) {
	s.bucket.giveBack(at, x)
	s.moved -= x
	s.mark -= x
}

// hold is how long the response is to be held for the key's sake: until what
// the key owes up to and including this request is paid. What was charged to it
// since is for later ones to wait for, so that responses leave first in, first
// out at the key's pace.
func (s *slot) hold(at time.Duration) time.Duration {
	b := s.bucket
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.budget.hold || b.budget.shadow {
		return 0
	}
	b.refillLocked(at)
	return b.clears(-b.level - (b.total - s.mark))
}

// note tells the key's averages of a request that is over.
func (s *slot) note(at time.Duration, cost float64, held time.Duration) {
	s.bucket.mu.Lock()
	defer s.bucket.mu.Unlock()
	s.bucket.used.note(at, cost, s.waited+held)
}
