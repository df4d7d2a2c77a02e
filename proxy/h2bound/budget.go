package h2bound

import "time"

// budget bounds how often something happens: at a steady rate, with a burst, by the
// generic cell rate algorithm (GCRA, ITU-T I.371). What the client has earned by honest
// work is spent before.
//
// A frame costs the server some µs, whatever it is. So whoever stays below rate, burst
// and savings together for a second takes less than a fifth of a CPU in it, and
// whoever does not is cut before the second is over.
type budget struct {
	each  time.Duration // between two at the steady rate
	burst int           // how many may come at once
	most  int           // how many may be saved

	paid  time.Duration // until when what came is paid for, since the connection began
	saved int           // earned and not spent
}

// newBudget makes a budget of so many per second.
func newBudget(perSecond, burst, most int) budget {
	return budget{each: time.Second / time.Duration(perSecond), burst: burst, most: most}
}

// earn lets the client do so many more, as far as they can be saved.
func (b *budget) earn(n int) { b.saved = min(b.saved+n, b.most) }

// spend tells whether so many more may happen now. Now never goes backwards.
func (b *budget) spend(now time.Duration, n int) bool {
	free := min(n, b.saved)
	b.saved -= free
	if n == free {
		return true
	}
	b.paid = max(b.paid, now) + time.Duration(n-free)*b.each
	return b.late(now) == 0
}

// late is how long it takes until what has happened is within the budget.
func (b *budget) late(now time.Duration) time.Duration {
	return max(0, b.paid-now-time.Duration(b.burst)*b.each)
}
