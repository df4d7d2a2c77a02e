package redis

import (
	"time"

	"tempomat/limiter"
)

// pending is what is not sent yet, added up by key. It holds a bounded number of
// keys for a bounded time. Its methods are for one goroutine.
type pending struct {
	most    int // keys
	keys    map[limiter.Key]debit
	dropped uint64 // charges
}

// debit is what a key is to be charged.
type debit struct {
	cost    time.Duration // as a key of no standing would owe it: an account knows one rate
	used    time.Duration // CPU time
	began   time.Time     // when the first of the requests went on
	since   time.Time     // of the first charge
	charges uint64
}

func newPending(most int) *pending {
	return &pending{most: most, keys: map[limiter.Key]debit{}}
}

// add puts a charge in, if there is room for its key.
func (p *pending) add(c limiter.Charge) {
	d, known := p.keys[c.Key]
	if !known {
		if len(p.keys) >= p.most {
			p.dropped++
			return
		}
		d.since, d.began = c.At, c.At
	}
	d.cost += c.NormalizedCost()
	d.used += c.Cost
	if c.Until.Before(d.began) {
		d.began = c.Until
	}
	d.charges++
	p.keys[c.Key] = d
}

// ran is for how long the key earned while its requests ran: what they cost was
// used in the time before, but not before they began.
func (d *debit) ran(now time.Time) time.Duration {
	return max(0, min(d.used, now.Sub(d.began)))
}

// forget drops what is older than age: who was away tells nobody of the past.
func (p *pending) forget(now time.Time, age time.Duration) {
	for k, d := range p.keys {
		if now.Sub(d.since) > age {
			p.dropped += d.charges
			delete(p.keys, k)
		}
	}
}

// take takes out at most n keys.
func (p *pending) take(n int, f func(limiter.Key, debit)) {
	for k, d := range p.keys {
		if n--; n < 0 {
			return
		}
		delete(p.keys, k)
		f(k, d)
	}
}
