package account

import "time"

// What is asked of keys, and done to them, beside requests.

// Charge takes x CPU-seconds of a key.
func (t *Table[V]) Charge(at time.Duration, k Key, x float64) {
	t.with(at, k, func(b *Bucket[V]) { b.chargeLocked(at, x) })
}

// Owe has a key owe until then at least, as far as it can owe so much.
func (t *Table[V]) Owe(at time.Duration, k Key, until time.Duration) {
	t.with(at, k, func(b *Bucket[V]) { b.oweLocked(at, until) })
}

// Forgive sets a key's debt to none, and returns it, in CPU-seconds, and the bucket; nil: the
// key is not known.
func (t *Table[V]) Forgive(at time.Duration, k Key) (forgiven float64, of *Bucket[V]) {
	t.look(k, func(b *Bucket[V]) {
		b.refillLocked(at)
		if b.level < 0 {
			forgiven = -b.level
			b.level = 0
		}
		of = b
	})
	return forgiven, of
}

// Debt is how long another request would have to wait for a key, and by which terms; nil: the
// key is not known, which is as good as owing nothing.
func (t *Table[V]) Debt(at time.Duration, k Key) (owes time.Duration, by *Terms) {
	t.look(k, func(b *Bucket[V]) { owes, by = b.debtLocked(at), b.terms })
	return owes, by
}

// Find returns how a key stands, and its bucket; nil: it is not known. Then it has its whole
// burst, which State says as far as there are terms for its class.
func (t *Table[V]) Find(at time.Duration, k Key) (s State, of *Bucket[V]) {
	if t.look(k, func(b *Bucket[V]) { s, of = b.stateLocked(at), b }) {
		return s, of
	}
	if terms := t.Terms(k.Class); terms != nil {
		s = State{Key: k, Level: terms.Burst, Rate: terms.Rate, Burst: terms.Burst}
	}
	return s, nil
}

// All calls yield with every key of a class (of all if class is empty, also of
// those that are gone), in no order, until yield returns false. Keys that come or go meanwhile
// may be missed. No lock is held while yield runs.
func (t *Table[V]) All(at time.Duration, class string, yield func(State, *Bucket[V]) bool) {
	var states []State
	var buckets []*Bucket[V]
	for i := range t.shards {
		states, buckets = states[:0], buckets[:0]
		t.shards[i].each(func(b *Bucket[V]) {
			if class == "" || b.Key.Class == class {
				states, buckets = append(states, b.stateLocked(at)), append(buckets, b)
			}
		})
		for i, s := range states {
			if !yield(s, buckets[i]) {
				return
			}
		}
	}
}
