package telemetry

import (
	"sync"
	"time"
)

const (
	// mostCheap and mostDear are how many a shard keeps of each kind until they are taken.
	// What is beyond that is stood for by others of its kind.
	mostCheap, mostDear = 24, 48
	// notable is the cost from which a request is dear, and the delay from which one that is
	// not is of a kind of its own. least is the cost below which nobody asks what it was.
	notable = 50 * time.Millisecond
	least   = notable / 100
)

// The kinds of requests, of people and of others. Each has its sample, so that a flood of one
// kind neither hides another nor is multiplied with it; and cheap ones of a kind cost about the
// same, so that the one that is kept does not make the others much dearer than they are.
const (
	tiny   = iota // answered, for less than least
	small         // for less than ten times that
	middle        // for less than notable
	turned        // not answered
	late          // they waited, whatever became of them
	dear
	perGroup // how many these are
	kinds    = 2 * perGroup
)

// Batch is some requests that are over.
type Batch struct {
	Entries []Entry      // a sample, in no order
	Sums    [Groups]Sums // of all of them
}

// Sums are what requests of a group that are over add up to, each of them counted.
type Sums struct {
	Requests, Refused, Redirected int
	Backend                       AtBackend
	Cost                          time.Duration // CPU time
	Wasted                        time.Duration // of Cost, for clients that had left
	// Told and ToldWasted are what of Cost and of Wasted was told while they ran.
	Told, ToldWasted time.Duration
}

// AtBackend is how requests that came to the backend ended, but for those whose client left.
type AtBackend struct {
	Requests          int
	Down, Slow, Broke int // as the outcomes
	Errors            int // answered, with 5xx
}

// Add adds up.
func (b *AtBackend) Add(o *AtBackend) {
	b.Requests += o.Requests
	b.Down += o.Down
	b.Slow += o.Slow
	b.Broke += o.Broke
	b.Errors += o.Errors
}

// since takes away what was there before.
func (s Sums) since(before *Sums) Sums {
	s.Requests -= before.Requests
	s.Refused -= before.Refused
	s.Redirected -= before.Redirected
	s.Backend.Requests -= before.Backend.Requests
	s.Backend.Down -= before.Backend.Down
	s.Backend.Slow -= before.Backend.Slow
	s.Backend.Broke -= before.Backend.Broke
	s.Backend.Errors -= before.Backend.Errors
	s.Cost -= before.Cost
	s.Wasted -= before.Wasted
	s.Told -= before.Told
	s.ToldWasted -= before.ToldWasted
	return s
}

// Sink adds up what the Feed has. One goroutine at a time calls it.
type Sink interface {
	// Take takes in requests that are over. It keeps nothing of the Batch.
	Take(now time.Time, b *Batch)
}

// Feed keeps requests that are over until somebody takes them, in bounded memory: of many a
// sample, which is enough to see what they were. How many they were it has counted. It
// implements Recorder.
type Feed struct {
	counts *Counts

	mu    sync.Mutex // guards the following; taken before a shard's
	taken [Groups]Sums
	batch Batch
}

// NewFeed makes a Feed without entries. What it is told of it has counts count, too. Counts
// have one Feed.
func NewFeed(counts *Counts) *Feed { return &Feed{counts: counts} }

// Note implements Recorder.
func (f *Feed) Note(now time.Time, r *Record) {
	at, kind := int(r.Shard%Shards), kindOf(r)
	s := &f.counts.shards[at]
	s.mu.Lock()
	f.counts.addLocked(at, now, r)
	if !s.passesLocked(kind) {
		if e := s.nextLocked(kind); e != nil {
			e.Set(now, r, 1)
		}
	}
	s.mu.Unlock()
	f.counts.byName(r)
}

// Drain has the sinks take what there is since the last time. It is to be called some times
// a second.
func (f *Feed) Drain(now time.Time, sinks ...Sink) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.counts.sums()
	for g := range all {
		f.batch.Sums[g] = all[g].since(&f.taken[g])
	}
	f.taken = all
	for i := range f.counts.shards {
		f.batch.Entries = f.counts.shards[i].take(f.batch.Entries[:0])
		for _, s := range sinks {
			s.Take(now, &f.batch)
		}
		f.batch.Sums = [Groups]Sums{} // they are those of all shards
	}
	clear(f.batch.Entries[:cap(f.batch.Entries)]) // or the strings would stay alive
}

// kindOf is the kind of a request.
func kindOf(r *Record) int {
	if r.Group == Stranger || r.Group == Robot {
		return costKind(r)
	}
	return perGroup + costKind(r)
}

// costKind is the kind of one of a group. One of which something was told while it ran is dear,
// as that is set right by its end.
func costKind(r *Record) int {
	switch {
	case r.Cost >= notable || r.Told > 0:
		return dear
	case r.Delay() >= notable:
		return late
	case r.Outcome != Answered:
		return turned
	case r.Cost < least:
		return tiny
	case r.Cost < 10*least:
		return small
	}
	return middle
}
