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

// Table is a bounded set of buckets. It has several shards, each with its own lock, so requests of different
// clients rarely wait for each other. Its methods may be called concurrently.
//
// When a shard is full, it compares a few random buckets, and evicts the one with the smallest deficit. A key
// without a bucket counts as one with a full bucket, so no debt is lost while some keys are idle. A client
// can't get rid of its debt by inventing clients, because each of these clients would need a larger debt.
type Table[V any] struct {
	seed   maphash.Seed
	terms  atomic.Pointer[[]*Terms]
	shards []shard[V]
}

// New makes a table for about size buckets. It has no terms yet.
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

// shard returns the shard of a key, and the key's hash in that shard.
func (t *Table[V]) shard(k Key) (*shard[V], uint32) {
	h := maphash.String(t.seed, k.ID)
	return &t.shards[int(h&(maxShards-1))&(len(t.shards)-1)], uint32(h >> 32)
}

// Lookup fills the reservation of a key that has a bucket, pins the bucket, and returns how long another
// request would have to wait for the key. If reserve is true and the key doesn't delay the request, Lookup also
// charges x CPU-seconds. A typical request therefore locks each key's shard only once.
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

// Enter fills the reservation of a key for which Lookup found no bucket, and pins the bucket. If the key still
// has no bucket, Enter makes a full one. If the key's class has no terms, the reservation stays empty.
func (t *Table[V]) Enter(at time.Duration, k Key, r *Reservation[V]) {
	t.with(at, k, func(b *Bucket[V]) {
		b.pins++
		r.Bucket, r.Terms = b, b.terms
	})
}

// with locks the bucket of a key and calls f with it. If the key has no bucket, with makes one. If the class
// has no terms, with doesn't call f.
func (t *Table[V]) with(at time.Duration, k Key, f func(*Bucket[V])) {
	s, hash := t.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.findLocked(k, hash)
	if b == nil {
		// Read the terms under the lock; otherwise SetTerms could miss this bucket.
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

// look locks the bucket of a key and calls f with it. It returns false if the key has none.
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

// Terms returns the terms of a class, or nil. A loop is faster than a map, because there are few classes, and
// equal names mostly share their memory.
func (t *Table[V]) Terms(class string) *Terms {
	for _, x := range *t.terms.Load() {
		if x.Class == class {
			return x
		}
	}
	return nil
}

// SetTerms sets the terms of all classes. A key earns at the old rate until now, and keeps its level, limited
// to the new burst. Keys of other classes stay unchanged until they are evicted.
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

// Len returns the number of buckets.
func (t *Table[V]) Len() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += s.n
		s.mu.Unlock()
	}
	return n
}

// shard is a hash table of buckets: open addressing with linear probing, and deletion by shifting back (Knuth,
// The Art of Computer Programming 6.4, algorithm R). A Go map would need 50 % more memory per bucket, and 20 %
// more time per lookup.
type shard[V any] struct {
	mu    sync.Mutex   // guards the fields below, and the buckets
	slots []*Bucket[V] // a power of two; at least half of them are free
	n     int          // buckets
	size  int          // the largest number of buckets, not counting pinned ones
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

// addLocked makes the bucket of a key that has none. It copies the key's ID; otherwise the bucket would keep
// the request's whole string in memory.
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

// removeLocked removes a bucket, and moves later buckets back if they could otherwise no longer be found.
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

// sampled is how many buckets an eviction compares. Of 8 random buckets, one is almost always full, and
// evicting it loses nothing.
const sampled = 8

// evictLocked removes the bucket with the smallest deficit in a sample. The shard may not be empty. If all
// buckets of the sample are pinned, it removes none, so the table can exceed its size by at most the number of
// requests in progress.
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
			break // no deficit is smaller
		}
	}
	if least != nil {
		s.removeLocked(least)
	}
}

// random returns a number below n, by xorshift64 (Marsaglia 2003), which is good enough for sampling. Each
// shard has its own generator, so shards don't wait for each other.
func (s *shard[V]) random(n int) int {
	s.rng ^= s.rng << 13
	s.rng ^= s.rng >> 7
	s.rng ^= s.rng << 17
	return int(s.rng % uint64(n)) //nolint:gosec // less than n
}

// State is a snapshot of a key's account.
type State struct {
	Key     Key
	Level   float64       // CPU-seconds: credit above zero, debt below
	Rate    float64       // CPU-seconds that the key earns per second, with the standing applied
	Burst   float64       // the most CPU-seconds that the key can save, with the standing applied
	Charged float64       // CPU-seconds that the key was charged in total, minus what was given back
	Paid    time.Duration // time until the debt is paid if the key is charged nothing more
	// Wait is the average number of seconds for which the latest requests were delayed, including requests that
	// wait elsewhere now.
	Wait float64
	// CPU (CPU-seconds per second) and Requests (per second) are the key's recent rates.
	CPU, Requests float64
	Idle          time.Duration // time since the key was last used
	// Running counts requests that are charged and don't wait. Waiting counts those that wait for the key's debt
	// or elsewhere. Held counts held requests and responses.
	Running, Waiting, Held int
	Queued                 float64 // the sum of the guesses of the requests that wait for its debt, in CPU-seconds
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
	if b.elsewhere > 0 { // count the requests that wait elsewhere as if they started now
		s.Wait += (b.waitedLocked(at) - s.Wait) * (1 - math.Pow(1-latest, float64(b.elsewhere)))
	}
	return s
}

// Key is one member of a class, such as {slash24, 203.0.113.0/24}.
type Key struct {
	Class string // the class's configured name
	ID    string // the member, as text: an address, a prefix, a User-Agent family, a hash
}

// Terms are the conditions for the accounts of a class. A value is immutable; SetTerms replaces it.
type Terms struct {
	Class string
	Rate  float64 // CPU-seconds earned per second; above 0
	Burst float64 // CPU-seconds: the most credit, 0 or more
	Floor float64 // CPU-seconds: the most debt, below 0

	LocalOnly bool          // charges aren't shared with other instances
	External  bool          // nothing is charged here; other instances decide how long a key must wait
	Cap       bool          // a request waits until the debt is paid
	Hold      bool          // a response is held until the debt is paid
	Shadow    bool          // requests and responses aren't delayed, but verdicts report the delay
	Plain     bool          // clients' standing doesn't change what they earn; a hard cap is the same for all
	Aside     bool          // this class alone is in shadow, so its keys' debts don't make requests more expensive either
	Workers   float32       // the part that a key may hold of the workers that aren't kept for short requests; 0: no limit
	MaxHold   time.Duration // the longest wait before a refusal
}

// Concerns reports whether a debt that takes this long to pay delays the key's requests or responses, or would
// delay them if the class weren't in shadow. t may be nil if owes is 0.
func (t *Terms) Concerns(owes time.Duration) bool { return owes > 0 && (t.Cap || t.Hold) }

// delays reports whether requests of the class wait until a debt is paid.
func (t *Terms) delays() bool { return t.Cap && !t.Shadow }

// The methods below are queries, and changes that don't come from requests.

// Charge charges a key x CPU-seconds.
func (t *Table[V]) Charge(at time.Duration, k Key, x float64) {
	t.with(at, k, func(b *Bucket[V]) { b.chargeLocked(at, x) })
}

// Owe keeps a key in debt until at least the given time, as far as the floor allows.
func (t *Table[V]) Owe(at time.Duration, k Key, until time.Duration) {
	t.with(at, k, func(b *Bucket[V]) { b.oweLocked(at, until) })
}

// Forgive sets a key's debt to zero. It returns the previous debt in CPU-seconds and the bucket, which is nil
// if the key has none.
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

// Debt returns how long another request would have to wait for a key, and the key's terms. The terms are nil if
// the key has no bucket, and therefore no debt.
func (t *Table[V]) Debt(at time.Duration, k Key) (owes time.Duration, by *Terms) {
	t.look(k, func(b *Bucket[V]) { owes, by = b.debtLocked(at), b.terms })
	return owes, by
}

// Find returns the state of a key, and its bucket. If the key has no bucket, the bucket is nil; if the class
// has terms, the state is then that of a full bucket.
func (t *Table[V]) Find(at time.Duration, k Key) (s State, of *Bucket[V]) {
	if t.look(k, func(b *Bucket[V]) { s, of = b.stateLocked(at), b }) {
		return s, of
	}
	if terms := t.Terms(k.Class); terms != nil {
		s = State{Key: k, Level: terms.Burst, Rate: terms.Rate, Burst: terms.Burst}
	}
	return s, nil
}

// All calls yield with every key of a class, in no particular order, until yield returns false. An empty
// class means all classes, including those without terms. Keys that appear or disappear during the call may
// be missed. No lock is held while yield runs.
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
