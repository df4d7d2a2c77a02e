package limiter

import "time"

// Balance is how an account stands, in CPU-seconds, the client's standing included.
type Balance struct {
	Level float64 // credit above zero, debt below
	Rate  float64 // earned per second
	Burst float64 // the most credit
}

// Balance tells how a key's account stands; false if those of its class have none.
func (l *Limiter) Balance(now time.Time, k Key) (x Balance, ok bool) {
	b := l.table.policy.Load().class(k.Class)
	if b == nil || b.external {
		return x, false
	}
	x = Balance{Level: b.burst, Rate: b.rate, Burst: b.burst} // of a key that was never charged
	at := l.since(now)
	l.table.look(k, func(b *bucket) {
		b.refillLocked(at)
		x = Balance{Level: b.level, Rate: b.rate(), Burst: b.burst()}
	})
	return x, true
}
