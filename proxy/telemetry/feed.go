package telemetry

import (
	"hash/maphash"
	"sync"
	"time"
)

const (
	// feedShards is over how many locks requests that end at the same time are spread.
	feedShards = 16
	// mostEntries is how many a shard keeps until they are taken. What is beyond that is
	// stood for by the others.
	mostEntries = 64
	// usualEntries is how many are aimed at of the cheap ones that were answered, and of
	// those that were not. They leave room for the dear.
	usualEntries = 16
	// notable is the cost, or the delay, from which each request is kept if there is room.
	notable = 50 * time.Millisecond
)

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
	missed  int // that would have been kept
	cheap   sample
	turned  sample // not answered
	_       [64]byte
}

// sample takes one request of some.
type sample struct {
	seen   int // since the last were taken
	passed int // since one was kept
	stride int // of so many one is kept
}

// next returns how many requests this one stands for, with those that were passed over
// before it; 0: it is none of the sample.
func (s *sample) next() int {
	s.seen++
	if s.passed++; s.passed < s.stride {
		return 0
	}
	weight := s.passed
	s.passed = 0
	return weight
}

// again aims at as many from what has been.
func (s *sample) again() { s.stride, s.seen = s.seen/usualEntries, 0 }

func (s *feedShard) note(now time.Time, r *Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	weight := 1
	if r.Cost < notable && r.Delay() < notable {
		kind := &s.cheap
		if r.Outcome != Answered {
			kind = &s.turned
		}
		if weight = kind.next(); weight == 0 {
			return
		}
	}
	if len(s.entries) == mostEntries {
		s.missed += weight
		return
	}
	if s.entries == nil {
		s.entries = make([]Entry, 0, mostEntries)
	}
	s.entries = s.entries[:len(s.entries)+1]
	s.entries[len(s.entries)-1].Set(now, r, float64(weight))
}

// take appends the entries and forgets them.
func (s *feedShard) take(to []Entry) []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := len(to)
	to = append(to, s.entries...)
	if s.missed > 0 {
		more := 1 + float64(s.missed)/float64(len(s.entries))
		for i := range to[from:] {
			to[from+i].Weight *= more
		}
	}
	s.cheap.again()
	s.turned.again()
	clear(s.entries)
	s.entries, s.missed = s.entries[:0], 0
	return to
}
