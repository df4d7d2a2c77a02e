package telemetry

import (
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// feedShards is over how many locks requests that end at the same time are spread.
	feedShards = 16
	// mostCheap and mostDear are how many a shard keeps of each kind until they are taken.
	// What is beyond that is stood for by others of its kind.
	mostCheap, mostDear = 12, 24
	// notable is the cost from which a request is dear, and the delay from which one that is
	// not is of a kind of its own. least is the cost below which nobody asks what it was.
	notable = 50 * time.Millisecond
	least   = notable / 100
)

// The kinds of requests. Each has its sample, so that a flood of one kind neither hides
// another nor is multiplied with it; and cheap ones of a kind cost about the same, so that
// the one that is kept does not make the others much dearer than they are.
const (
	tiny   = iota // answered, for less than least
	small         // for less than ten times that
	middle        // for less than notable
	turned        // not answered
	late          // they waited, whatever became of them
	dear
	kinds
)

// Batch is some requests that are over.
type Batch struct {
	Entries []Entry      // a sample, in no order
	Sums    [Groups]Sums // of all of them
}

// Sums are what requests of a group that are over add up to, each of them counted.
type Sums struct {
	Requests, Refused, Redirected int
	Cost                          time.Duration // CPU time
	Wasted                        time.Duration // of Cost, for clients that had left
	// Told and ToldWasted are what of Cost and of Wasted was told while they ran.
	Told, ToldWasted time.Duration
}

func (s *Sums) add(r *Record) {
	s.Requests++
	s.Cost += max(0, r.Cost)
	s.Told += r.Told
	if r.Orphan {
		s.Wasted += max(0, r.Cost)
		s.ToldWasted += r.ToldWasted
	}
	switch r.Outcome {
	case Refused:
		s.Refused++
	case Redirected:
		s.Redirected++
	default:
	}
}

// Sink adds up what the Feed has. One goroutine at a time calls it.
type Sink interface {
	// Take takes in requests that are over. It keeps nothing of the Batch.
	Take(now time.Time, b *Batch)
}

// Feed adds up requests that are over until somebody takes them, and keeps them in bounded
// memory: of many a sample, which is enough to see what they were. It implements Recorder.
type Feed struct {
	seed   maphash.Seed
	shards [feedShards]feedShard

	mu    sync.Mutex // guards the following; taken before a shard's
	batch Batch
}

// NewFeed makes a Feed without entries.
func NewFeed() *Feed {
	f := &Feed{seed: maphash.MakeSeed()}
	for i := range f.shards {
		for kind := range f.shards[i].kinds {
			f.shards[i].kinds[kind].most = mostCheap
		}
		f.shards[i].kinds[dear].most = mostDear
	}
	return f
}

// Note implements Recorder.
func (f *Feed) Note(now time.Time, r *Record) {
	address := r.Who.Client.As16()
	f.shards[maphash.Bytes(f.seed, address[:])%feedShards].note(now, r)
}

// Drain has the sinks take what there is since the last time. It is to be called some times
// a second.
func (f *Feed) Drain(now time.Time, sinks ...Sink) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.shards {
		f.shards[i].take(&f.batch)
		for _, s := range sinks {
			s.Take(now, &f.batch)
		}
	}
	clear(f.batch.Entries[:cap(f.batch.Entries)]) // or the strings would stay alive
}

// feedShard is a part of the requests.
type feedShard struct {
	mu    sync.Mutex // guards the following
	sums  [Groups]Sums
	kinds [kinds]sample
	_     [64]byte
}

func (s *feedShard) note(now time.Time, r *Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sums[r.Group].add(r)
	if e := s.kinds[kindOf(r)].next(); e != nil {
		e.Set(now, r, 1)
	}
}

// kindOf is the kind of a request. One of which something was told while it ran is dear,
// as that is set right by its end.
func kindOf(r *Record) int {
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

// take moves all to a batch, in the place of what was in it.
func (s *feedShard) take(to *Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to.Entries = to.Entries[:0]
	to.Sums, s.sums = s.sums, [Groups]Sums{}
	for i := range s.kinds {
		to.Entries = s.kinds[i].take(to.Entries)
	}
}

// sample keeps some of any number of requests, each of them with the same probability.
type sample struct {
	most    int
	entries []Entry
	seen    int // requests
	stride  int // of so many in a row one is kept, by chance
	left    int // of the row
	pick    int // the one that is kept has so many after it
}

// next is where the next request is to be kept, nil if it is not.
func (s *sample) next() *Entry {
	s.seen++
	if s.left == 0 { // whoever asks in turn for several pages is not always met at the same one
		s.left, s.pick = max(1, s.stride), rand.IntN(max(1, s.stride)) //nolint:gosec // nothing secret
	}
	if s.left--; s.left != s.pick {
		return nil
	}
	if len(s.entries) == s.most {
		s.thin()
		if rand.IntN(2) == 0 { //nolint:gosec // nothing secret
			return nil
		}
	}
	if s.entries == nil {
		s.entries = make([]Entry, 0, s.most)
	}
	s.entries = s.entries[:len(s.entries)+1]
	return &s.entries[len(s.entries)-1]
}

// thin gives up one of each two that follow each other.
func (s *sample) thin() {
	for i := range s.most / 2 {
		s.entries[i] = s.entries[2*i+rand.IntN(2)] //nolint:gosec // nothing secret
	}
	s.entries = s.entries[:s.most/2]
	s.stride, s.left = 2*max(1, s.stride), 0
}

// take appends what is kept, which stands for all that were seen, and begins anew.
func (s *sample) take(to []Entry) []Entry {
	if s.seen == 0 {
		return to
	}
	from := len(to)
	to = append(to, s.entries...)
	for i := range to[from:] {
		to[from+i].Weight = float64(s.seen) / float64(len(s.entries))
	}
	clear(s.entries[:cap(s.entries)]) // or the strings would stay alive
	s.entries, s.seen, s.stride, s.left = s.entries[:0], 0, 1, 0
	return to
}
