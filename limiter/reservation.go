package limiter

import "time"

// reservation is what one key has to do with a request. Its bucket is pinned until the
// request is settled, or leaves.
type reservation struct {
	bucket    *bucket
	moved     float64 // what the charges really took, to give back no more
	mark      float64 // the bucket's total just after they were taken
	waited    float32 // seconds that the request waited for this key, and at the gate
	debtRatio float32 // the key's as the reservation was made
	workers   float32 // of the class: the part of the workers that the key may hold; 0: any
	reserved  bool    // charged, and at its place among what the key is charged with

	localOnly     bool          // of a class that peers are not told of
	external      bool          // of a class that nothing is charged to
	externalUntil time.Duration // if external, when its peers let the request go, as it came
	standing      float64       // once settled, what the key's budget is multiplied by
}

// change is what becomes of a charge: more is taken, or a part of it given back.
type change struct {
	more float64 // CPU-seconds
	back float64 // 0 to 1
}

// reserve takes the first charge.
func (r *reservation) reserve(at time.Duration, x float64) {
	if r.reserved {
		return
	}
	r.bucket.home.mu.Lock()
	defer r.bucket.home.mu.Unlock()
	r.reserveLocked(at, x)
}

func (r *reservation) reserveLocked(at time.Duration, x float64) {
	r.reserved = true
	r.debtRatio = float32(r.bucket.debtRatioLocked(at))
	r.moved = r.bucket.chargeLocked(at, x)
	r.mark = r.bucket.total
}

// debtRatioOf is how far the key was in debt as a part of the most, before it was charged with x CPU-seconds,
// which it is now if they are to be reserved.
func (r *reservation) debtRatioOf(at time.Duration, x float64, reserve bool) float64 {
	if r.reserved {
		return float64(r.debtRatio)
	}
	r.bucket.home.mu.Lock()
	defer r.bucket.home.mu.Unlock()
	if !reserve {
		return r.bucket.debtRatioLocked(at)
	}
	r.reserveLocked(at, x)
	return float64(r.debtRatio)
}

func (r *reservation) change(at time.Duration, c change) {
	r.bucket.home.mu.Lock()
	defer r.bucket.home.mu.Unlock()
	r.changeLocked(at, c)
}

// changeLocked gives back no more than the charges really took.
func (r *reservation) changeLocked(at time.Duration, c change) {
	moved := r.bucket.chargeLocked(at, c.more)
	if back := r.moved * c.back; back > 0 {
		r.bucket.giveBackLocked(at, back)
		moved -= back
	}
	r.moved += moved
	r.mark += moved
}

// undo takes back the reservation, if there is one, but not the pin.
func (r *reservation) undo(at time.Duration) {
	if r.reserved {
		r.change(at, change{back: 1})
		r.reserved = false
	}
}

// settle makes the last change, lets go of the bucket, notes what the request
// cost in the key's averages, and returns how long to hold the response for the
// key's sake, at most so long.
func (r *reservation) settle(at time.Duration, c change, cost float64, most time.Duration) (hold time.Duration) {
	b := r.bucket
	b.home.mu.Lock()
	defer b.home.mu.Unlock()
	r.changeLocked(at, c)
	r.standing = b.factor
	if b.budget.hold && !b.budget.shadow {
		hold = min(r.owedLocked(), most)
	}
	b.used.note(at, cost, r.waited+float32(hold.Seconds()))
	b.pins--
	return hold
}

// owedLocked is how long the key takes to pay what it owes up to and including
// this request. What was charged to it since is for later ones to wait for, so
// that responses leave first in, first out at the key's pace.
func (r *reservation) owedLocked() time.Duration {
	b := r.bucket
	return b.clears(-b.level - (b.total - r.mark))
}

// leave lets go of the bucket of a request that never ran, and takes back what
// it was charged. It waited for so many seconds at the gate, or was told to, as it
// was refused for this key's sake, or had waited for the key; 0 is not noted.
func (r *reservation) leave(at time.Duration, wait float32) {
	b := r.bucket
	b.home.mu.Lock()
	defer b.home.mu.Unlock()
	if r.reserved {
		r.changeLocked(at, change{back: 1})
	}
	if wait = max(wait, r.waited); wait > 0 {
		b.used.note(at, 0, wait)
	}
	b.pins--
}
