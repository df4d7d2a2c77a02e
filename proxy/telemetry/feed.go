package telemetry

import (
	"hash/maphash"
	"sync"
	"time"
)

const (
	// feedShards is over how many locks requests that end at the same time are spread.
	feedShards = 16
	// mostEntries is how many a shard keeps until they are taken. Dear ones beyond that are
	// stood for by other dear ones.
	mostEntries = 128
	// usualEntries is how many are aimed at of each kind of the cheap ones. They leave room
	// for the dear.
	usualEntries = 16
	// notable is the cost from which each request is kept if there is room, and the delay
	// from which one is of a kind of its own.
	notable = 50 * time.Millisecond
)

// The kinds of cheap requests. Each has its sample, so that a flood of one kind neither
// hides another nor is multiplied with it; and those of a kind cost about the same, so that
// the one that is kept does not make the others much dearer than they are.
const (
	tiny   = iota // answered, for less than least
	small         // for less than ten times that
	middle        // for less than notable
	turned        // not answered
	late          // they waited, whatever became of them
	kinds
)

// least is the cost below which nobody asks what it was.
const least = notable / 100

// Sink adds up what the Feed kept. One goroutine calls it.
type Sink interface {
	// Take takes in requests that are over, in no order. It keeps nothing of the slice.
	Take(now time.Time, entries []Entry)
}

// Feed keeps requests that are over until somebody takes them, in bounded memory: of cheap
// ones that come fast a sample, which is enough to see what they add up to. It implements
// Recorder.
type Feed struct {
	seed   maphash.Seed
	shards [feedShards]feedShard
	taken  []Entry
}

// NewFeed makes a Feed without entries.
func NewFeed() *Feed { return &Feed{seed: maphash.MakeSeed()} }

// Note implements Recorder.
func (f *Feed) Note(now time.Time, r *Record) {
	address := r.Who.Client.As16()
	f.shards[maphash.Bytes(f.seed, address[:])%feedShards].note(now, r)
}

// Drain has the sinks take what was kept since the last time. One goroutine calls it,
// some times a second.
func (f *Feed) Drain(now time.Time, sinks ...Sink) {
	for i := range f.shards {
		f.taken = f.shards[i].take(f.taken[:0])
		for _, s := range sinks {
			s.Take(now, f.taken)
		}
	}
	clear(f.taken) // or the strings would stay alive
}

// feedShard is a part of the requests.
type feedShard struct {
	mu      sync.Mutex // guards the following
	entries []Entry
	missed  time.Duration // cost of the dear that found no room
	cheap   [kinds]sample
	_       [64]byte
}

// sample takes one request of some.
type sample struct {
	seen   int // since the last were taken
	kept   int // of these
	passed int // since one was kept
	stride int // of so many one is kept
}

// next returns how many requests this one stands for, with those that were passed over
// before it; 0: it is none of the sample. From what was aimed at on, the stride doubles with
// each: a burst that nothing announced fills no memory either.
func (s *sample) next() int {
	s.seen++
	if s.passed++; s.passed < s.stride {
		return 0
	}
	if s.kept++; s.kept >= usualEntries {
		s.stride = 2 * max(1, s.stride)
	}
	weight := s.passed
	s.passed = 0
	return weight
}

// again aims at as many from what has been.
func (s *sample) again() { s.stride, s.seen, s.kept = s.seen/usualEntries, 0, 0 }

// isDear tells whether a request is kept if there is room. What was told of one while it
// ran is set right by its end, which nothing else can stand for.
func isDear(cost, told time.Duration) bool { return cost >= notable || told > 0 }

func (s *feedShard) note(now time.Time, r *Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	weight := 1
	if !isDear(r.Cost, r.Told) {
		if weight = s.cheap[kindOf(r.Outcome, r.Delay(), r.Cost)].next(); weight == 0 {
			return
		}
	}
	if len(s.entries) == mostEntries {
		s.missed += r.Cost - r.Told
		return
	}
	if s.entries == nil {
		s.entries = make([]Entry, 0, mostEntries)
	}
	s.entries = s.entries[:len(s.entries)+1]
	s.entries[len(s.entries)-1].Set(now, r, float64(weight))
}

// kindOf tells which kind a request is of that is not dear.
func kindOf(o Outcome, delay, cost time.Duration) int {
	switch {
	case delay >= notable:
		return late
	case o != Answered:
		return turned
	case cost < least:
		return tiny
	case cost < 10*least:
		return small
	}
	return middle
}

// take appends the entries and forgets them.
func (s *feedShard) take(to []Entry) []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := len(to)
	to = append(to, s.entries...)
	s.standFor(to[from:])
	for i := range s.cheap {
		s.cheap[i].again()
	}
	clear(s.entries)
	s.entries, s.missed = s.entries[:0], 0
	return to
}

// standFor has entries stand for the others of their kind that came after them, too: the
// next one of the kind may be somebody else's, and come much later. Dear ones do so for
// those that found no room, but for those whose cost was told before.
func (s *feedShard) standFor(entries []Entry) {
	var weights [kinds]float64
	dear := time.Duration(0)
	for i := range entries {
		switch e := &entries[i]; {
		case !isDear(e.Cost, e.Told):
			weights[kindOf(e.Outcome, e.Delay, e.Cost)] += e.Weight
		case e.Told == 0:
			dear += e.Cost
		}
	}
	for i := range entries {
		switch e := &entries[i]; {
		case !isDear(e.Cost, e.Told):
			kind := kindOf(e.Outcome, e.Delay, e.Cost)
			e.Weight *= 1 + float64(s.cheap[kind].passed)/weights[kind]
		case e.Told == 0:
			e.Weight *= 1 + max(0, s.missed.Seconds())/dear.Seconds()
		}
	}
	for kind := range s.cheap {
		if weights[kind] > 0 {
			s.cheap[kind].passed = 0
		}
	}
}
