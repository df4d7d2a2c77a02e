package limiter

import (
	"math"
	"sync/atomic"
	"time"
)

// bucket is the token bucket of one key. Instants are durations since the
// limiter's epoch, amounts are CPU-seconds.
//
// Its clock never runs backwards: a request that started before another one
// and is charged after it finds the level as it is, and credit that was earned
// once is not earned again.
//
// All of it is guarded by its shard, but for what never changes, for queue, and for
// what the gate counts.
// The fields are in the order in which a request needs them, as to a table
// larger than the processor's cache a request costs what it waits for memory.
type bucket struct {
	hash    uint32 // of the key; never changes
	pins    int32  // requests that are charged with it or wait; never evicted above 0
	home    *shard // never changes
	budget  *budget
	level   float64       // credit above zero, debt below
	total   float64       // all that was ever charged less all that was given back
	last    time.Duration // when level was right
	waiting int32         // requests in its queue
	held    int32         // requests and responses of this client that are held; pins as well
	queued  float64       // the sum of the guesses of those that wait
	factor  float64       // of what the budget gives: the client's standing, and a share of its own; 1 for other keys

	key   Key // never changes
	used  average
	queue *queue // nil: none waits; guarded by the waiting room

	client atomic.Pointer[client] // nil: the key was never a client's at the gate

	gated int32  // requests that wait at the gate
	since uint32 // when they came there, summed up, in milliseconds; it may wrap around

	holds, orphans int32 // see hold.go; guarded by the gate
}

func newBucket(at time.Duration, k Key, b *budget) *bucket {
	return &bucket{key: k, budget: b, level: b.burst, last: at, factor: 1, used: average{last: at}}
}

// refillLocked adds what was earned since last.
func (b *bucket) refillLocked(at time.Duration) {
	if at > b.last {
		b.level = min(b.burst(), b.level+(at-b.last).Seconds()*b.rate())
		b.last = at
	}
}

// chargeLocked takes x ≥ 0 and returns how much of it the bucket really lost:
// less than x at the floor. That is what may be given back.
func (b *bucket) chargeLocked(at time.Duration, x float64) (moved float64) {
	if b.refillLocked(at); b.budget.external {
		return 0
	}
	was := b.level
	b.level = max(b.floor(), b.level-x)
	if was < b.level { // it was below a floor that has been raised since
		b.level = was
	}
	moved = was - b.level
	b.total += moved
	return moved
}

// giveBackLocked returns x ≥ 0 of what chargeLocked took.
func (b *bucket) giveBackLocked(at time.Duration, x float64) {
	b.refillLocked(at)
	b.level = min(max(b.level, b.burst()), b.level+x)
	b.total -= x
}

// oweLocked makes the debt last at least until then.
func (b *bucket) oweLocked(at, until time.Duration) {
	b.refillLocked(at)
	debt := max(b.floor(), -(until-at).Seconds()*b.rate())
	if debt < min(0, b.level) {
		b.total += b.level - debt
		b.level = debt
	}
}

// debtLocked returns how long another request would have to wait for the key,
// behind those that wait already, each of them counted with its guess.
func (b *bucket) debtLocked(at time.Duration) time.Duration {
	if b.refillLocked(at); b.budget.external {
		return b.clears(-b.level)
	}
	wait := b.clears(b.queued - b.level)
	if b.waiting > 0 {
		return max(wait, 1) // never past those who wait
	}
	return wait
}

// blocks returns how long the key keeps the request waiting, were it the first
// of its queue. Peers who told it until when to wait count on it then, and do not
// tell it to wait longer for those that came later.
func (r *reservation) blocks(at time.Duration) time.Duration {
	b := r.bucket
	b.home.mu.Lock()
	defer b.home.mu.Unlock()
	switch {
	case !b.budget.cap || b.budget.shadow:
		return 0
	case b.budget.external:
		return max(0, r.externalUntil-at)
	}
	b.refillLocked(at)
	return b.clears(-b.level)
}

// clears is how long the bucket takes to earn x, rounded up so that it has
// been earned by then, and 0 if x is not above zero.
func (b *bucket) clears(x float64) time.Duration {
	if x <= 1e-9 { // what refilling in steps may leave by rounding
		return 0
	}
	return time.Duration(math.Ceil(x / b.rate() * float64(time.Second)))
}

// enqueued counts a request that entered or left the queue.
func (b *bucket) enqueued(n int32, guess float64) {
	b.home.mu.Lock()
	defer b.home.mu.Unlock()
	b.waiting += n
	b.queued = max(0, b.queued+guess)
	if b.waiting == 0 {
		b.queued = 0 // no rounding is left behind
	}
}

// gates counts n more requests as waiting at the gate, since then.
func (b *bucket) gates(n int32, since time.Duration) {
	b.home.mu.Lock()
	defer b.home.mu.Unlock()
	b.gated += n
	b.since += uint32(n) * milliseconds(since) //nolint:gosec // it may wrap around
}

// waitedLocked is for how many seconds those have waited that wait at the gate, on
// average. All of it together is less than what wraps around, so that the difference is
// right.
func (b *bucket) waitedLocked(at time.Duration) float64 {
	sum := uint32(b.gated)*milliseconds(at) - b.since            //nolint:gosec // it may wrap around
	return float64(max(0, int32(sum))) / 1000 / float64(b.gated) //nolint:gosec // likewise
}

func milliseconds(d time.Duration) uint32 { return uint32(d.Milliseconds()) } //nolint:gosec // likewise

// deficitLocked is what would be lost if the bucket were forgotten now.
func (b *bucket) deficitLocked(at time.Duration) float64 {
	b.refillLocked(at)
	return b.burst() - b.level
}

// setBudgetLocked goes on with another budget. A level above the new burst is cut.
func (b *bucket) setBudgetLocked(at time.Duration, n *budget) {
	b.refillLocked(at)
	b.budget = n
	b.level = min(b.level, b.burst())
}

// What the budget gives, by the client's standing and a share of its own.
func (b *bucket) rate() float64  { return b.factor * b.budget.rate }
func (b *bucket) burst() float64 { return b.factor * b.budget.burst }
func (b *bucket) floor() float64 { return b.factor * b.budget.floor }

// setFactor multiplies what the key earns by its client's standing and by so many times the
// share of its class, and returns that rate.
func (b *bucket) setFactor(at time.Duration, standing, share float64) float64 {
	b.home.mu.Lock()
	defer b.home.mu.Unlock()
	b.setFactorLocked(at, standing, share)
	return b.rate()
}

// debtRatioLocked is the key's debt as a part of the deepest that it can have, as far as
// anything is dearer for that.
func (b *bucket) debtRatioLocked(at time.Duration) float64 {
	if b.refillLocked(at); b.level >= 0 || b.budget.aside {
		return 0
	}
	return min(1, b.level/b.floor())
}

// setFactorLocked goes on with another standing of the client. What it owes stays
// owed, or who can change their standing could wash a debt away. A hard cap is
// the same for everybody, but for keys with a share of their own.
func (b *bucket) setFactorLocked(at time.Duration, standing, share float64) {
	if b.budget.cap && !b.budget.shadow {
		standing = 1
	}
	if factor := standing * share; factor != b.factor {
		b.refillLocked(at)
		b.factor = factor
		b.level = min(b.level, b.burst())
	}
}

// rowLocked is what the doctor sees.
func (b *bucket) rowLocked(at time.Duration) Row {
	b.refillLocked(at)
	r := Row{
		Class: b.key.Class, ID: b.key.ID,
		Level:   b.level,
		Paid:    b.clears(-b.level).Seconds(),
		Running: int(b.pins - b.waiting - b.gated),
		Waiting: int(b.waiting + b.gated),
	}
	b.used.fill(&r, at)
	if b.gated > 0 { // as if those that wait went now
		r.Wait += (b.waitedLocked(at) - r.Wait) * (1 - math.Pow(1-latest, float64(b.gated)))
	}
	return r
}
