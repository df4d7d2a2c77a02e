package account

import (
	"math"
	"sync"
	"time"
)

// Bucket is the token bucket of one key, whose Key never changes. It belongs to a Table.
// Its methods may be called concurrently.
type Bucket[V any] struct {
	bucket
	// Value is what the table's user keeps with the key. It is the user's to guard.
	Value V
}

// bucket is a Bucket except for the Value. Instants are durations since an epoch of the user's,
// amounts are CPU-seconds.
//
// Its clock never runs backwards: a request that started before another one and is charged
// after it finds the current level, and no credit is earned twice.
//
// All of it is guarded by the lock, except for what never changes. The fields are in the order
// in which a request needs them, because with a table larger than the processor's cache a
// request's cost is its waits for memory.
type bucket struct {
	hash     uint32      // of the key; never changes
	pins     int32       // requests that are charged with it or wait; never evicted above 0
	lock     *sync.Mutex // its shard's; never changes
	terms    *Terms
	level    float64       // credit above zero, debt below
	total    float64       // all that was ever charged less all that was given back
	last     time.Duration // when level was right
	waiting  int32         // requests that wait for its debt
	held     int32         // requests and responses of this client that are held; pins as well
	queued   float64       // the sum of the guesses of those that wait for its debt
	standing float32       // of the client, and

	Key  Key // never changes
	used average

	elsewhere int32  // requests that wait for something else than its debt
	since     uint32 // when they began to, summed up, in milliseconds; it may wrap around
}

func makeBucket(at time.Duration, k Key, t *Terms) bucket {
	return bucket{Key: k, terms: t, level: t.Burst, last: at, standing: 1, used: average{last: at}}
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
	if b.refillLocked(at); b.terms.External {
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
	if b.refillLocked(at); b.terms.External {
		return b.clears(-b.level)
	}
	wait := b.clears(b.queued - b.level)
	if b.waiting > 0 {
		return max(wait, 1) // never past those who wait
	}
	return wait
}

// clears is how long the bucket takes to earn x, rounded up so that it has
// been earned by then, and 0 if x is not above zero.
func (b *bucket) clears(x float64) time.Duration {
	if x <= 1e-9 { // what refilling in steps may leave by rounding
		return 0
	}
	return time.Duration(math.Ceil(x / b.rate() * float64(time.Second)))
}

// Earns is how long the key takes to earn x CPU-seconds.
func (b *bucket) Earns(x float64) time.Duration {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.clears(x)
}

// WaitForDebt counts n more requests as waiting for the debt to be paid, which will likely
// cost so many CPU-seconds together: both are negative as they wait no longer.
func (b *bucket) WaitForDebt(n int32, guess float64) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.waiting += n
	b.queued = max(0, b.queued+guess)
	if b.waiting == 0 {
		b.queued = 0 // no rounding is left behind
	}
}

// WaitElsewhere counts n more requests as waiting for something else, since then; n is
// negative as they wait no longer.
func (b *bucket) WaitElsewhere(n int32, since time.Duration) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.elsewhere += n
	b.since += uint32(n) * milliseconds(since) //nolint:gosec // it may wrap around
}

// Hold counts n more requests and responses as held, and returns how many are.
func (b *bucket) Hold(n int32) int {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.held += n
	return int(b.held)
}

// waitedLocked is the average time in seconds that requests have waited elsewhere. The sum is
// below the wrap-around, so the difference is right.
func (b *bucket) waitedLocked(at time.Duration) float64 {
	sum := uint32(b.elsewhere)*milliseconds(at) - b.since            //nolint:gosec // it may wrap around
	return float64(max(0, int32(sum))) / 1000 / float64(b.elsewhere) //nolint:gosec // the same
}

func milliseconds(d time.Duration) uint32 { return uint32(d.Milliseconds()) } //nolint:gosec // the same

// deficitLocked is what would be lost if the bucket were forgotten now.
func (b *bucket) deficitLocked(at time.Duration) float64 {
	b.refillLocked(at)
	return b.burst() - b.level
}

// setTermsLocked goes on with other terms. A level above the new burst is cut.
func (b *bucket) setTermsLocked(at time.Duration, t *Terms) {
	b.refillLocked(at)
	b.terms = t
	b.level = min(b.level, b.burst())
}

// The terms, scaled by the client's standing.
func (b *bucket) rate() float64  { return b.factor() * b.terms.Rate }
func (b *bucket) burst() float64 { return b.factor() * b.terms.Burst }
func (b *bucket) floor() float64 { return b.factor() * b.terms.Floor }

func (b *bucket) factor() float64 {
	if b.terms.Plain {
		return 1
	}
	return float64(b.standing)
}

// SetStanding multiplies what the terms give by the client's standing, and returns what the key
// earns then, in CPU-seconds per second. Where the terms are Plain the standing counts for nothing: a hard cap is the same for all.
func (b *bucket) SetStanding(at time.Duration, standing float64) float64 {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.setStandingLocked(at, standing)
	return b.rate()
}

// debtRatioLocked is the key's debt as a part of the deepest that it can have, as far as
// anything is more expensive for that.
func (b *bucket) debtRatioLocked(at time.Duration) float64 {
	if b.refillLocked(at); b.level >= 0 || b.terms.Aside {
		return 0
	}
	return min(1, b.level/b.floor())
}

// setStandingLocked continues with another standing of the client. Its debt stays, otherwise a
// client that can change its standing could wash a debt away. A hard cap is the same for all
// clients.
func (b *bucket) setStandingLocked(at time.Duration, standing float64) {
	if s := float32(standing); s != b.standing {
		b.refillLocked(at)
		b.standing = s
		b.level = min(b.level, b.burst())
	}
}

// recent is the time constant of the rates that the doctor shows.
const recent = 30 * time.Second

// latest is the weight of a request in the average wait, once there were some.
const (
	latest     = 0.1
	mostLatest = 10
)

// average is what a key recently used. Rates decay exponentially with time, so a key that falls
// silent sinks in the doctor's table; the wait is an average over requests, because each has
// one.
type average struct {
	last      time.Duration // of the latest request
	wait      float32       // s
	n         uint8         // requests that wait is of, up to mostLatest
	cpu, reqs float32       // CPU-s/s and requests/s at last
}

func (a *average) decay(at time.Duration) float32 {
	x := float64(at-a.last) / float64(recent)
	switch {
	case x <= 0:
		return 1
	case x < 1./16: // a busy key: three terms of the series are exact enough
		return float32(1 - x*(1-x*(1./2-x/6)))
	}
	return float32(math.Exp(-x))
}

// note takes in a request that is over and was delayed for wait seconds.
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

// Reservation is what one key has to do with a request: what it was charged for it, and how
// much of that may be given back. Table's Lookup or Enter makes one of a zero Reservation.
// The key's bucket is pinned until the request is settled, or leaves. It is not for several
// goroutines at once.
type Reservation[V any] struct {
	Bucket    *Bucket[V] // nil: the key is not known
	Terms     *Terms     // those of its class as the request came
	moved     float64    // what the charges really took, to give back no more
	mark      float64    // the bucket's total just after they were taken
	Waited    float32    // seconds that the request waited for this key, and elsewhere
	debtRatio float32    // the key's as the reservation was made
	reserved  bool       // charged, and at its place among what the key is charged with

	Until  time.Duration // for an external class: when its peers let the request go, as of its arrival
	Factor float64       // once settled, what the terms were multiplied by
}

// Change is what becomes of a charge: more is taken, or a part of it given back.
type Change struct {
	More float64 // CPU-seconds
	Back float64 // 0 to 1
}

// Reserve takes the first charge of x CPU-seconds, if it was not taken yet.
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

// DebtRatio is how far the key was in debt as a part of the most, 0 to 1, before it was
// charged with x CPU-seconds, which it is now if they are to be reserved.
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

// Blocks is how long the key keeps the request waiting, were it the first of those that wait
// for the debt. Peers who told it until when to wait count on it then, and do not tell it to
// wait longer for those that came later.
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

// Change takes more of the key, or gives a part back.
func (r *Reservation[V]) Change(at time.Duration, c Change) {
	r.Bucket.lock.Lock()
	defer r.Bucket.lock.Unlock()
	r.changeLocked(at, c)
}

// changeLocked gives back no more than the charges really took.
func (r *Reservation[V]) changeLocked(at time.Duration, c Change) {
	moved := r.Bucket.chargeLocked(at, c.More)
	if back := r.moved * c.Back; back > 0 {
		r.Bucket.giveBackLocked(at, back)
		moved -= back
	}
	r.moved += moved
	r.mark += moved
}

// Undo takes back the reservation, if there is one, but not the pin.
func (r *Reservation[V]) Undo(at time.Duration) {
	if r.reserved {
		r.Change(at, Change{Back: 1})
		r.reserved = false
	}
}

// Settle makes the last change, lets go of the bucket, notes what the request cost, in
// CPU-seconds, in the key's averages, and returns how long to hold the response for the key's
// sake, at most so long.
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

// owedLocked is how long the key takes to pay what it owes up to and including this request.
// Later requests wait for later charges, so responses leave first in, first out at the key's
// pace.
func (r *Reservation[V]) owedLocked() time.Duration {
	b := r.Bucket
	return b.clears(-b.level - (b.total - r.mark))
}

// Leave releases the bucket of a request that never ran, and returns what it was charged. wait
// is how many seconds it waited elsewhere, or was told to wait when it was refused for this
// key's debt; if that is 0, and it has not Waited, nothing is noted.
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
