package account

import (
	"math"
	"sync"
	"time"
)

// Bucket is the token bucket of one key in a Table. The Key never changes. All methods may be called
// concurrently.
type Bucket[V any] struct {
	bucket
	// Value is data that the table's user stores for the key. The user must guard it against concurrent use.
	Value V
}

// bucket is a Bucket without the Value. Times are durations since an epoch that the table's user chooses;
// amounts are CPU-seconds.
//
// Time never runs backwards in a bucket. A charge whose time is before last applies to the current level, so no
// credit is earned twice.
//
// The lock guards all fields except those that never change. The fields are in the order in which a request
// needs them, because in a table larger than the CPU cache, a request spends most of its time here waiting for
// memory.
type bucket struct {
	hash     uint32      // the key's hash; never changes
	pins     int32       // requests that are charged to the bucket or wait for it; above 0, it is never evicted
	lock     *sync.Mutex // the shard's; never changes
	terms    *Terms
	level    float64       // credit above zero, debt below
	total    float64       // the sum of all charges, minus what was given back
	last     time.Duration // the time to which level applies
	waiting  int32         // requests that wait until its debt is paid
	held     int32         // requests and responses of this client that are held; counted in pins as well
	queued   float64       // the sum of those requests' guesses
	standing float32       // the client's standing, which multiplies the terms

	Key  Key // never changes
	used average

	elsewhere int32  // requests that wait for something other than its debt
	since     uint32 // the sum of the times at which they began to wait, in milliseconds; may overflow
}

func makeBucket(at time.Duration, k Key, t *Terms) bucket {
	return bucket{Key: k, terms: t, level: t.Burst, last: at, standing: 1, used: average{last: at}}
}

// refillLocked adds what the key has earned since last.
func (b *bucket) refillLocked(at time.Duration) {
	if at > b.last {
		b.level = min(b.burst(), b.level+(at-b.last).Seconds()*b.rate())
		b.last = at
	}
}

// chargeLocked charges x ≥ 0 and returns how far the level actually fell. Near the floor, this is less than x.
// No more than the returned amount may be given back.
func (b *bucket) chargeLocked(at time.Duration, x float64) (moved float64) {
	if b.refillLocked(at); b.terms.External {
		return 0
	}
	was := b.level
	b.level = max(b.floor(), b.level-x)
	if was < b.level { // the level was below the floor, because the floor has been raised
		b.level = was
	}
	moved = was - b.level
	b.total += moved
	return moved
}

// giveBackLocked gives back x ≥ 0 of what chargeLocked took.
func (b *bucket) giveBackLocked(at time.Duration, x float64) {
	b.refillLocked(at)
	b.level = min(max(b.level, b.burst()), b.level+x)
	b.total -= x
}

// oweLocked keeps the key in debt until at least the given time, as far as the floor allows.
func (b *bucket) oweLocked(at, until time.Duration) {
	b.refillLocked(at)
	debt := max(b.floor(), -(until-at).Seconds()*b.rate())
	if debt < min(0, b.level) {
		b.total += b.level - debt
		b.level = debt
	}
}

// debtLocked returns how long another request would have to wait for the key, behind those that already wait.
// It assumes that each of these costs its guess.
func (b *bucket) debtLocked(at time.Duration) time.Duration {
	if b.refillLocked(at); b.terms.External {
		return b.clears(-b.level)
	}
	wait := b.clears(b.queued - b.level)
	if b.waiting > 0 {
		return max(wait, 1) // a new request never overtakes waiting ones
	}
	return wait
}

// clears returns how long the bucket takes to earn x CPU-seconds, rounded up to a nanosecond. It returns 0 if
// x isn't positive.
func (b *bucket) clears(x float64) time.Duration {
	if x <= 1e-9 { // ignores rounding errors of several refills
		return 0
	}
	return time.Duration(math.Ceil(x / b.rate() * float64(time.Second)))
}

// Earns returns how long the key takes to earn x CPU-seconds, or 0 if x isn't positive.
func (b *bucket) Earns(x float64) time.Duration {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.clears(x)
}

// WaitForDebt adds n to the number of requests that wait for the debt, and guess to the sum of their guesses in
// CPU-seconds. Both are negative when requests stop waiting.
func (b *bucket) WaitForDebt(n int32, guess float64) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.waiting += n
	b.queued = max(0, b.queued+guess)
	if b.waiting == 0 {
		b.queued = 0 // discards rounding errors
	}
}

// WaitElsewhere adds n to the number of requests that have waited for something other than the debt since the
// given time. When they stop waiting, call WaitElsewhere with -n and the same time.
func (b *bucket) WaitElsewhere(n int32, since time.Duration) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.elsewhere += n
	b.since += uint32(n) * milliseconds(since) //nolint:gosec // overflow is intended
}

// Hold counts n more requests and responses as held, and returns how many are held.
func (b *bucket) Hold(n int32) int {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.held += n
	return int(b.held)
}

// waitedLocked returns the average time in seconds that requests have waited elsewhere. The sums may have
// overflowed, but their difference is right, because the true value is small enough.
func (b *bucket) waitedLocked(at time.Duration) float64 {
	sum := uint32(b.elsewhere)*milliseconds(at) - b.since            //nolint:gosec // overflow is intended
	return float64(max(0, int32(sum))) / 1000 / float64(b.elsewhere) //nolint:gosec // the same
}

func milliseconds(d time.Duration) uint32 { return uint32(d.Milliseconds()) } //nolint:gosec // the same

// deficitLocked returns how many CPU-seconds the key would gain if the bucket were forgotten now.
func (b *bucket) deficitLocked(at time.Duration) float64 {
	b.refillLocked(at)
	return b.burst() - b.level
}

// setTermsLocked sets new terms. A level above the new burst is reduced to it.
func (b *bucket) setTermsLocked(at time.Duration, t *Terms) {
	b.refillLocked(at)
	b.terms = t
	b.level = min(b.level, b.burst())
}

// rate, burst and floor return the terms, scaled by the client's standing.
func (b *bucket) rate() float64  { return b.factor() * b.terms.Rate }
func (b *bucket) burst() float64 { return b.factor() * b.terms.Burst }
func (b *bucket) floor() float64 { return b.factor() * b.terms.Floor }

func (b *bucket) factor() float64 {
	if b.terms.Plain {
		return 1
	}
	return float64(b.standing)
}

// SetStanding sets the client's standing, which multiplies the terms, and returns what the key then earns, in
// CPU-seconds per second. Plain terms ignore the standing, because a hard cap is the same for all clients.
func (b *bucket) SetStanding(at time.Duration, standing float64) float64 {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.setStandingLocked(at, standing)
	return b.rate()
}

// debtRatioLocked returns the key's debt as a fraction of the deepest debt that it may have. It returns 0 if
// debts of the class don't make requests more expensive.
func (b *bucket) debtRatioLocked(at time.Duration) float64 {
	if b.refillLocked(at); b.level >= 0 || b.terms.Aside {
		return 0
	}
	return min(1, b.level/b.floor())
}

// setStandingLocked sets the client's standing. The debt doesn't change; otherwise a client could reduce its
// debt by changing its standing.
func (b *bucket) setStandingLocked(at time.Duration, standing float64) {
	if s := float32(standing); s != b.standing {
		b.refillLocked(at)
		b.standing = s
		b.level = min(b.level, b.burst())
	}
}

// recent is the time constant of the rates that the doctor shows.
const recent = 30 * time.Second

// latest is the weight of each request in the average wait, after the first mostLatest requests.
const (
	latest     = 0.1
	mostLatest = 10
)

// average is the recent use of a key. Rates decay exponentially with time, so an idle key sinks in the
// doctor's table. The wait is an average over requests and doesn't decay with time.
type average struct {
	last      time.Duration // the time of the latest request
	wait      float32       // s
	n         uint8         // how many requests the average covers, up to mostLatest
	cpu, reqs float32       // CPU-s/s and requests/s at last
}

// decay returns the factor by which the rates have decayed since the latest request.
func (a *average) decay(at time.Duration) float32 {
	return float32(math.Exp(-max(0, float64(at-a.last)/float64(recent))))
}

// note adds a request that has ended and was delayed for wait seconds.
func (a *average) note(at time.Duration, cost float64, wait float32) {
	d := a.decay(at)
	a.cpu = a.cpu*d + float32(cost/recent.Seconds())
	a.reqs = a.reqs*d + float32(1/recent.Seconds())
	a.n = min(a.n+1, mostLatest)
	a.wait += (wait - a.wait) / float32(a.n)
	a.last = max(a.last, at)
}

func (a *average) fill(s *State, at time.Duration) {
	d := a.decay(at)
	s.Wait = float64(a.wait)
	s.CPU, s.Requests = float64(a.cpu*d), float64(a.reqs*d)
	s.Idle = max(0, at-a.last)
}

// Reservation is what one key was charged for a request, and how much of that may be given back. Table.Lookup
// or Table.Enter fills a zero Reservation. The key's bucket is pinned until Settle or Leave. Only one
// goroutine at a time may use a Reservation.
type Reservation[V any] struct {
	Bucket    *Bucket[V] // nil: the key has no bucket
	Terms     *Terms     // the terms of its class when the request arrived
	moved     float64    // how far the charges actually lowered the level; no more may be given back
	mark      float64    // the bucket's total up to and including this request's charges
	Waited    float32    // seconds for which the request waited, for this key and elsewhere
	debtRatio float32    // the key's debt ratio when the reservation was made
	reserved  bool       // the first charge was made and hasn't been undone

	Until  time.Duration // for an external class: the time until which the other instances delay the request, as known at its arrival
	Factor float64       // set by Settle: the factor by which the terms were multiplied
}

// Change describes how a charge changes: it takes more, or gives back a part.
type Change struct {
	More float64 // CPU-seconds
	Back float64 // 0 to 1
}

// Reserve makes the first charge of x CPU-seconds, unless it was made already.
func (r *Reservation[V]) Reserve(at time.Duration, x float64) {
	if r.reserved {
		return
	}
	r.Bucket.lock.Lock()
	defer r.Bucket.lock.Unlock()
	r.reserveLocked(at, x)
}

func (r *Reservation[V]) reserveLocked(at time.Duration, x float64) {
	r.reserved = true
	r.debtRatio = float32(r.Bucket.debtRatioLocked(at))
	r.moved = r.Bucket.chargeLocked(at, x)
	r.mark = r.Bucket.total
}

// DebtRatio returns the key's debt before it was charged for this request, as a fraction of its deepest debt
// from 0 to 1. If reserve is true, it also makes the first charge of x CPU-seconds, unless it was made already.
func (r *Reservation[V]) DebtRatio(at time.Duration, x float64, reserve bool) float64 {
	if r.reserved {
		return float64(r.debtRatio)
	}
	r.Bucket.lock.Lock()
	defer r.Bucket.lock.Unlock()
	if !reserve {
		return r.Bucket.debtRatioLocked(at)
	}
	r.reserveLocked(at, x)
	return float64(r.debtRatio)
}

// Blocks returns how long the key keeps the request waiting, as if it were the first one in the queue. For an
// external class, this is the time that the other instances had set when the request arrived. Orders that
// arrive afterwards apply only to later requests.
func (r *Reservation[V]) Blocks(at time.Duration) time.Duration {
	b := r.Bucket
	b.lock.Lock()
	defer b.lock.Unlock()
	switch {
	case !b.terms.delays():
		return 0
	case b.terms.External:
		return max(0, r.Until-at)
	}
	b.refillLocked(at)
	return b.clears(-b.level)
}

// Change charges the key more, or gives back a part.
func (r *Reservation[V]) Change(at time.Duration, c Change) {
	r.Bucket.lock.Lock()
	defer r.Bucket.lock.Unlock()
	r.changeLocked(at, c)
}

// changeLocked does what Change does. It gives back at most what the charges actually took.
func (r *Reservation[V]) changeLocked(at time.Duration, c Change) {
	moved := r.Bucket.chargeLocked(at, c.More)
	if back := r.moved * c.Back; back > 0 {
		r.Bucket.giveBackLocked(at, back)
		moved -= back
	}
	r.moved += moved
	r.mark += moved
}

// Undo gives back the reservation, if there is one. The bucket stays pinned.
func (r *Reservation[V]) Undo(at time.Duration) {
	if r.reserved {
		r.Change(at, Change{Back: 1})
		r.reserved = false
	}
}

// Settle makes the last change, unpins the bucket, and adds the request's cost in CPU-seconds to the key's
// averages. It returns how long to hold the response because of the key's debt, at most for the duration most.
func (r *Reservation[V]) Settle(at time.Duration, c Change, cost float64, most time.Duration) (hold time.Duration) {
	b := r.Bucket
	b.lock.Lock()
	defer b.lock.Unlock()
	r.changeLocked(at, c)
	r.Factor = b.factor()
	if b.terms.Hold && !b.terms.Shadow {
		hold = min(r.owedLocked(), most)
	}
	b.used.note(at, cost, r.Waited+float32(hold.Seconds()))
	b.pins--
	return hold
}

// owedLocked returns how long the key takes to pay its debt up to and including this request. Charges of later
// requests don't count, so responses are sent in order, at the key's pace.
func (r *Reservation[V]) owedLocked() time.Duration {
	b := r.Bucket
	return b.clears(-b.level - (b.total - r.mark))
}

// Leave unpins the bucket of a request that never ran, and gives back its charge. wait is how many seconds the
// request waited elsewhere. If the request was refused for this key's debt, wait is how many seconds its client
// was asked to wait. If wait and Waited are both 0, the averages don't change.
func (r *Reservation[V]) Leave(at time.Duration, wait float32) {
	b := r.Bucket
	b.lock.Lock()
	defer b.lock.Unlock()
	if r.reserved {
		r.changeLocked(at, Change{Back: 1})
	}
	if wait = max(wait, r.Waited); wait > 0 {
		b.used.note(at, 0, wait)
	}
	b.pins--
}
