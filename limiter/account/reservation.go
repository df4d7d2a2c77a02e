package account

import "time"

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

	Until  time.Duration // of an external class, when its peers let the request go, as it came
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

// owedLocked is how long the key takes to pay what it owes up to and including
// this request. What was charged to it since is for later ones to wait for, so
// that responses leave first in, first out at the key's pace.
func (r *Reservation[V]) owedLocked() time.Duration {
	b := r.Bucket
	return b.clears(-b.level - (b.total - r.mark))
}

// Leave lets go of the bucket of a request that never ran, and takes back what it was
// charged. It waited elsewhere for so many seconds, or was told to, as it was refused for this
// key's sake; if that is 0, and it has not Waited, nothing is noted.
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
