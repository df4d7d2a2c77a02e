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
	terms := l.table.Terms(k.Class)
	if terms == nil || terms.External {
		return x, false
	}
	s, _ := l.table.Find(l.since(now), k)
	return Balance{Level: s.Level, Rate: s.Rate, Burst: s.Burst}, true
}
