package limiter

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// bucket is the token bucket of one key. Instants are durations since the
// limiter's epoch, amounts are CPU-seconds.
//
// Its clock never runs backwards: a request that started before another one
// and is charged after it finds the level as it is, and credit that was earned
// once is not earned again.
type bucket struct {
	key   Key
	pins  atomic.Int32 // requests in flight that hold on to it; never evicted above 0
	hash  uint32       // of the key
	index int32        // in its shard; guarded by the shard

	mu      sync.Mutex // guards the following; taken last of all locks
	waiting int32      // requests in its queue
	queued  float64    // the sum of their guesses
	budget  *budget
	level   float64       // credit above zero, debt below
	total   float64       // all that was ever charged less all that was given back
	last    time.Duration // when level was right
	used    average

	// Guarded by the waiting room:
	queue *queue // requests that wait for the level; nil: none
	held  int    // requests and responses of this client that are held
}

func newBucket(at time.Duration, k Key, b *budget) *bucket {
	return &bucket{key: k, budget: b, level: b.burst, last: at, used: average{last: at}}
}

func (b *bucket) unpin() { b.pins.Add(-1) }

// refillLocked adds what was earned since last.
func (b *bucket) refillLocked(at time.Duration) {
	if at > b.last {
		b.level = min(b.budget.burst, b.level+(at-b.last).Seconds()*b.budget.rate)
		b.last = at
	}
}

// charge takes x ≥ 0 and returns how much of it the bucket really lost: less
// than x at the floor. That is what giveBack may return.
func (b *bucket) charge(at time.Duration, x float64) (moved float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.chargeLocked(at, x)
}

func (b *bucket) chargeLocked(at time.Duration, x float64) (moved float64) {
	b.refillLocked(at)
	was := b.level
	b.level = max(b.budget.floor, b.level-x)
	if was < b.level { // it was below a floor that has been raised since
		b.level = was
	}
	moved = was - b.level
	b.total += moved
	return moved
}

// giveBack returns x ≥ 0 of what charge took.
func (b *bucket) giveBack(at time.Duration, x float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.giveBackLocked(at, x)
}

func (b *bucket) giveBackLocked(at time.Duration, x float64) {
	b.refillLocked(at)
	b.level = min(max(b.level, b.budget.burst), b.level+x)
	b.total -= x
}

// owe makes the debt last at least until then.
func (b *bucket) owe(at, until time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refillLocked(at)
	debt := max(b.budget.floor, -(until-at).Seconds()*b.budget.rate)
	if debt < min(0, b.level) {
		b.total += b.level - debt
		b.level = debt
	}
}

// clears is how long the bucket takes to earn x, rounded up so that it has
// been earned by then, and 0 if x is not above zero.
func (b *bucket) clears(x float64) time.Duration {
	if x <= 1e-9 { // what refilling in steps may leave by rounding
		return 0
	}
	return time.Duration(math.Ceil(x / b.budget.rate * float64(time.Second)))
}

// debt returns how long another request would have to wait for the key, behind
// those that wait already (each of them counted with its guess), and its budget.
func (b *bucket) debt(at time.Duration) (time.Duration, *budget) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refillLocked(at)
	d := b.clears(b.queued - b.level)
	if b.waiting > 0 {
		d = max(d, 1) // never past those who wait
	}
	return d, b.budget
}

// blocks returns how long the key keeps the first of its queue waiting.
func (b *bucket) blocks(at time.Duration) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.budget.cap || b.budget.shadow {
		return 0
	}
	b.refillLocked(at)
	return b.clears(-b.level)
}

// enqueued counts a request that entered or left the queue.
func (b *bucket) enqueued(n int32, guess float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting += n
	b.queued = max(0, b.queued+guess)
	if b.waiting == 0 {
		b.queued = 0 // no rounding is left behind
	}
}

// deficit is what the bucket would lose if it were forgotten now.
func (b *bucket) deficit(at time.Duration) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refillLocked(at)
	return b.budget.burst - b.level
}

// setBudget goes on with another budget. A level above the new burst is cut.
func (b *bucket) setBudget(at time.Duration, n *budget) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refillLocked(at)
	b.budget = n
	b.level = min(b.level, n.burst)
}

// row is what the doctor sees. It changes nothing.
func (b *bucket) row(at time.Duration) Row {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refillLocked(at)
	r := Row{
		Class: b.key.Class, ID: b.key.ID,
		Level:   b.level,
		Running: int(b.pins.Load() - b.waiting),
		Waiting: int(b.waiting),
	}
	b.used.fill(&r, at)
	return r
}

// refused tells the averages of a request that was told to come back.
func (b *bucket) refused(at, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used.note(at, 0, wait)
}
