package account

import (
	"hash/maphash"
	"math"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const maxShards = 64

// Table is the bounded store of buckets, sharded so that requests of different
// clients seldom meet at a lock. Its methods may be called concurrently.
//
// When it is full, the bucket with the least deficit of a few sampled ones goes. A full bucket
// is the same as an absent one, so this loses nothing as long as there are idle keys. No client
// can wash a debt away by inventing clients: each of them would have to run up a greater one.
type Table[V any] struct {
	seed   maphash.Seed
	terms  atomic.Pointer[[]*Terms]
	shards []shard[V]
}

// New makes a table for about size buckets, which is of no class yet.
func New[V any](size int) *Table[V] {
	n := 1
	if size > sampled*maxShards {
		n = maxShards
	} else if size > sampled {
		n = 1 << (bits.Len(uint(size/sampled)) - 1)
	}
	t := &Table[V]{seed: maphash.MakeSeed(), shards: make([]shard[V], n)}
	t.terms.Store(new([]*Terms))
	for i := range t.shards {
		t.shards[i] = shard[V]{size: max(1, size/n), rng: maphash.Bytes(t.seed, []byte{byte(i)}) | 1}
	}
	return t
}

// shard returns the shard of a key, and the hash that the shard knows it by.
func (t *Table[V]) shard(k Key) (*shard[V], uint32) {
	h := maphash.String(t.seed, k.ID)
	return &t.shards[int(h&(maxShards-1))&(len(t.shards)-1)], uint32(h >> 32)
}

// Lookup makes the reservation of a key, if that is known, pins its bucket, and returns how
// long another request would have to wait for the key. If that is zero, or the class makes no
// request wait, and reserve is set, x CPU-seconds are charged at the same time, so a usual
// request locks each key once.
func (t *Table[V]) Lookup(at time.Duration, k Key, r *Reservation[V], x float64, reserve bool) (owes time.Duration) {
	s, hash := t.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.findLocked(k, hash)
	if b == nil {
		return 0
	}
	b.pins++
	owes = b.debtLocked(at)
	r.Bucket, r.Terms, r.Until = b, b.terms, at+owes
	if reserve && !b.terms.Concerns(owes) {
		r.reserveLocked(at, x)
	}
	return owes
}

// Enter makes the reservation of a key that Lookup did not find, and its bucket if need be,
// which has its whole burst, and pins it. The reservation stays empty if there are no terms
// for the key's class.
func (t *Table[V]) Enter(at time.Duration, k Key, r *Reservation[V]) {
	t.with(at, k, func(b *Bucket[V]) {
		b.pins++
		r.Bucket, r.Terms = b, b.terms
	})
}

// with calls f with the bucket of a key, locked, and made if need be; not at
// all if there are no terms for its class.
func (t *Table[V]) with(at time.Duration, k Key, f func(*Bucket[V])) {
	s, hash := t.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.findLocked(k, hash)
	if b == nil {
		// Read under the lock, so SetTerms misses no bucket.
		terms := t.Terms(k.Class)
		if terms == nil {
			return
		}
		if s.n >= s.size {
			s.evictLocked(at)
		}
		b = s.addLocked(at, k, hash, terms)
	}
	f(b)
}

// look calls f with the bucket of a key, locked, if there is one.
func (t *Table[V]) look(k Key, f func(*Bucket[V])) bool {
	s, hash := t.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.findLocked(k, hash)
	if b != nil {
		f(b)
	}
	return b != nil
}

// Terms returns the terms of a class; nil: there are none. There are few classes, and equal names
// mostly share their bytes, so a loop beats a map.
func (t *Table[V]) Terms(class string) *Terms {
	for _, x := range *t.terms.Load() {
		if x.Class == class {
			return x
		}
	}
	return nil
}

// SetTerms has the classes go on with these terms, a few of them. A key keeps its level, cut
// to the new burst, and what it earned until now it earned at the old rate. Keys of classes
// that are gone stay as they are until they are evicted.
func (t *Table[V]) SetTerms(at time.Duration, all []*Terms) {
	t.terms.Store(&all)
	for i := range t.shards {
		t.shards[i].each(func(b *Bucket[V]) {
			if n := t.Terms(b.Key.Class); n != nil {
				b.setTermsLocked(at, n)
			}
		})
	}
}

// Len is the number of buckets.
func (t *Table[V]) Len() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += s.n
		s.mu.Unlock()
	}
	return n
}

// shard is a hash table of buckets: open addressing with linear probing, and
// deletion by shifting back (Knuth, The Art of Computer Programming 6.4,
// algorithm R). A Go map takes half as much memory again, and can not be
// sampled from evenly.
type shard[V any] struct {
	mu    sync.Mutex   // guards the following, and the buckets
	slots []*Bucket[V] // a power of two, at least half of them free
	n     int          // buckets
	size  int          // most of them, except for pinned ones
	rng   uint64
	_     [32]byte // a cache line of its own
}

// findLocked returns the bucket of a key, or nil.
func (s *shard[V]) findLocked(k Key, hash uint32) *Bucket[V] {
	if s.n == 0 {
		return nil
	}
	for i := s.home(hash); ; i = s.after(i) {
		if b := s.slots[i]; b == nil || b.hash == hash && b.Key == k {
			return b
		}
	}
}

// addLocked makes the bucket of a key that has none. It copies the key's ID,
// which is cut from a longer string that belongs to the request.
func (s *shard[V]) addLocked(at time.Duration, k Key, hash uint32, t *Terms) *Bucket[V] {
	b := &Bucket[V]{bucket: makeBucket(at, Key{Class: t.Class, ID: strings.Clone(k.ID)}, t)}
	b.hash, b.lock = hash, &s.mu
	s.n++
	if 2*s.n > len(s.slots) {
		old := s.slots
		s.slots = make([]*Bucket[V], max(8, 2*len(old)))
		for _, b := range old {
			if b != nil {
				s.placeLocked(b)
			}
		}
	}
	s.placeLocked(b)
	return b
}

func (s *shard[V]) home(hash uint32) int { return int(hash) & (len(s.slots) - 1) }
func (s *shard[V]) after(i int) int      { return (i + 1) & (len(s.slots) - 1) }

func (s *shard[V]) placeLocked(b *Bucket[V]) {
	i := s.home(b.hash)
	for s.slots[i] != nil {
		i = s.after(i)
	}
	s.slots[i] = b
}

// removeLocked forgets a bucket, and closes the gap for those that are beyond
// it because it was there.
func (s *shard[V]) removeLocked(b *Bucket[V]) {
	gap := s.home(b.hash)
	for s.slots[gap] != b {
		gap = s.after(gap)
	}
	for i := s.after(gap); s.slots[i] != nil; i = s.after(i) {
		mask := len(s.slots) - 1
		if home := s.home(s.slots[i].hash); (i-home)&mask >= (i-gap)&mask {
			s.slots[gap] = s.slots[i]
			gap = i
		}
	}
	s.slots[gap] = nil
	s.n--
}

// each calls f with every bucket while the shard is locked.
func (s *shard[V]) each(f func(*Bucket[V])) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.slots {
		if b != nil {
			f(b)
		}
	}
}

// sampled is how many buckets an eviction looks at. The least deficit of 8 at
// random is nearly always that of a full bucket, whose loss loses nothing.
const sampled = 8

// evictLocked, of a shard that has buckets, forgets the least deficit of a sample. If all of
// the sample are pinned it forgets none: work in flight may exceed the size, by no more than
// there is in flight.
func (s *shard[V]) evictLocked(at time.Duration) {
	var least *Bucket[V]
	var deficit float64
	for seen := 0; seen < sampled; {
		b := s.slots[s.random(len(s.slots))]
		if b == nil {
			continue
		}
		if seen++; b.pins > 0 || b.held > 0 {
			continue
		}
		if d := b.deficitLocked(at); least == nil || d < deficit {
			least, deficit = b, d
		}
		if least != nil && deficit <= 0 {
			break // no other can be less
		}
	}
	if least != nil {
		s.removeLocked(least)
	}
}

// random returns a number below n, by xorshift64 (Marsaglia 2003): sampling
// needs no better, and the state is the shard's own.
func (s *shard[V]) random(n int) int {
	s.rng ^= s.rng << 13
	s.rng ^= s.rng >> 7
	s.rng ^= s.rng << 17
	return int(s.rng % uint64(n)) //nolint:gosec // less than n
}

// State is how a key's account stands at a moment.
type State struct {
	Key     Key
	Level   float64       // CPU-seconds: credit above zero, debt below
	Rate    float64       // CPU-seconds that it earns per second, and
	Burst   float64       // the most that it saves, the standing included
	Charged float64       // CPU-seconds that it was ever charged with, less what was given back
	Paid    time.Duration // until its debt is paid, if it is charged with nothing more
	// Wait is for how many seconds its latest requests were delayed, on average, those
	// included that wait elsewhere now.
	Wait float64
	// CPU, in CPU-seconds per second, and Requests, per second, are what it recently used.
	CPU, Requests float64
	Idle          time.Duration // since it was last used
	// Running are its requests that are charged and wait for nothing, Waiting those that wait
	// for its debt or elsewhere, and Held those requests and responses that are held.
	Running, Waiting, Held int
	Queued                 float64 // CPU-seconds that those that wait for its debt will likely cost
}

func (b *bucket) stateLocked(at time.Duration) State {
	b.refillLocked(at)
	s := State{
		Key: b.Key, Level: b.level, Rate: b.rate(), Burst: b.burst(), Charged: b.total,
		Paid:    b.clears(-b.level),
		Running: int(b.pins - b.waiting - b.elsewhere),
		Waiting: int(b.waiting + b.elsewhere),
		Held:    int(b.held), Queued: b.queued,
	}
	b.used.fill(&s, at)
	if b.elsewhere > 0 { // as if those that wait went now
		s.Wait += (b.waitedLocked(at) - s.Wait) * (1 - math.Pow(1-latest, float64(b.elsewhere)))
	}
	return s
}

// Key is one member of a class: {slash24, 203.0.113.0/24}.
type Key struct {
	Class string // the class's configured name
	ID    string // the member, as text: an address, a prefix, a User-Agent family, a hash
}

// Terms are the conditions of a class's accounts. They never change: SetTerms gives a class new
// ones.
type Terms struct {
	Class string
	Rate  float64 // CPU-seconds earned per second; above 0
	Burst float64 // CPU-seconds: the most credit, 0 or more
	Floor float64 // CPU-seconds: the most debt, below 0

	LocalOnly bool          // peers are not told
	External  bool          // nothing is charged: what a key owes is the time until which peers want it to wait
	Cap       bool          // a request waits for the debt to be paid
	Hold      bool          // a response is held until it is
	Shadow    bool          // neither happens, it is only said
	Plain     bool          // the clients' standing does not change what they earn: a hard cap is the same for all
	Aside     bool          // the class alone is in shadow: its keys' debts make nothing more expensive, either
	Workers   float32       // the part of those not kept for short requests that a key may hold; 0: any
	MaxHold   time.Duration // the longest wait before a refusal
}

// Concerns reports whether a key that owes for so long delays its requests or their responses, or
// would if the class were not in shadow. A key that owes nothing needs no terms.
func (t *Terms) Concerns(owes time.Duration) bool { return owes > 0 && (t.Cap || t.Hold) }

// delays reports whether requests of the class wait for a debt.
func (t *Terms) delays() bool { return t.Cap && !t.Shadow }

// Queries and changes of keys other than by requests.

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
// key is unknown, which means no debt.
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
// those that are gone), in no order, until yield returns false. Keys that come or go in the meantime
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
