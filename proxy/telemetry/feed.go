package telemetry

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"tempomat/limiter"
)

const (
	// mostCheap and mostDear are how many a shard keeps of each kind until they are taken.
	// Further ones are represented by others of their kind.
	mostCheap, mostDear = 24, 48
	// notable is the cost from which a request is expensive, and the delay from which a cheap one
	// is a kind of its own. least is the cost below which a request isn't worth keeping.
	notable = 50 * time.Millisecond
	least   = notable / 100
)

// The kinds of requests, of people and of others. Each has its own sample, so a flood of one
// kind neither hides another nor is multiplied with it. Cheap ones of a kind cost about the
// same, so the one that is kept represents the others well.
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

// Sink adds up what the Feed has. One goroutine at a time calls it.
type Sink interface {
	// Take takes in requests that are over. It keeps nothing of the Batch.
	Take(now time.Time, b *Batch)
}

// Feed keeps ended requests until they are taken, in bounded memory: if there are many, a
// sample, which is enough to see what they were. It counts all of them. It implements Recorder.
type Feed struct {
	counts *Counts

	mu    sync.Mutex // guards the following; taken before a shard's
	taken [Groups]Sums
	batch Batch
}

// NewFeed makes a Feed without entries. It passes what it gets to counts as well. Counts have
// one Feed.
func NewFeed(counts *Counts) *Feed { return &Feed{counts: counts} }

// Note implements Recorder.
func (f *Feed) Note(now time.Time, r *Record) {
	kind := kindOf(r)
	s := &f.counts.shards[r.Shard%Shards]
	s.mu.Lock()
	s.groups[r.Group].count(r)
	if e := s.samples[kind].place(); e != nil {
		e.Set(now, r, 1)
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
	f.batch.Sums = all
	for g := range all {
		f.batch.Sums[g].add(&f.taken[g], -1)
	}
	f.taken = all
	for i := range f.counts.shards {
		f.batch.Entries = f.counts.shards[i].drain(f.batch.Entries[:0])
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

// costKind is the kind of one of a group. A request that was reported while it ran is expensive,
// because its end corrects that report.
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

// drain appends what is kept of all kinds, and begins again.
func (s *shard) drain(to []Entry) []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	for kind := range s.samples {
		to = s.samples[kind].drain(to)
	}
	return to
}

// sample keeps some of any number of requests, each of them with the same probability.
type sample struct {
	most    int
	entries []Entry
	seen    int // requests
}

// place is where the next request is to be kept, nil if it is not.
func (s *sample) place() *Entry {
	s.seen++
	if s.entries == nil {
		s.entries = make([]Entry, 0, s.most)
	}
	if n := len(s.entries); n < s.most {
		s.entries = s.entries[:n+1]
		return &s.entries[n]
	}
	if i := rand.IntN(s.seen); i < s.most { //nolint:gosec // nothing secret
		return &s.entries[i]
	}
	return nil
}

// drain appends what is kept, which stands for all that were seen, and begins again.
func (s *sample) drain(to []Entry) []Entry {
	if s.seen == 0 {
		return to
	}
	from := len(to)
	to = append(to, s.entries...)
	for i := range to[from:] {
		to[from+i].Weight = float64(s.seen) / float64(len(s.entries))
	}
	clear(s.entries[:cap(s.entries)]) // or the strings would stay alive
	s.entries, s.seen = s.entries[:0], 0
	return to
}

// mostText is how many bytes of a request's target, and of its host, an Entry keeps.
const mostText = 256

// Entry is what is kept of a Record for those that add up. It holds no memory of the
// request but the strings of its keys and shape, which lie in 1 KB with those of others.
type Entry struct {
	Ended       time.Time
	Took, Delay time.Duration // from the end of the request's head; of that, waiting
	Waited      time.Duration // whatever became of it; Delay is of those that were let go
	Guess, Cost time.Duration
	Told        time.Duration // of Cost, what was told of it while it ran, by an Entry of its own
	ToldWasted  time.Duration // of that, what was spent after its client had left
	Client      netip.Addr
	Shape       string
	Method      string // of the usual ones, else empty
	Limit, ID   string // as in Record
	Group       Group
	Outcome     Outcome
	Reason      limiter.Reason
	Blame       limiter.Key // whose debt it was
	Status      int
	Orphan      bool
	Shadow      bool
	Weight      float64 // of how many requests this one stands for, at least 1

	keys         [limiter.MaxKeys]limiter.Key
	keyCount     int
	host, target text
}

// Why is as of the Record.
func (e *Entry) Why() string { return why(e.Outcome, e.Reason, e.Limit) }

// Keys are the keys that were charged. The slice is the Entry's own.
func (e *Entry) Keys() []limiter.Key { return e.keys[:e.keyCount] }

// Host is the first bytes of the request's host.
func (e *Entry) Host() string { return e.host.String() }

// Target is the first bytes of the request's target, unchanged.
func (e *Entry) Target() string { return e.target.String() }

// Set makes an Entry of a Record, which stands for that many.
func (e *Entry) Set(now time.Time, r *Record, weight float64) {
	e.Ended, e.Took, e.Delay, e.Waited = now, now.Sub(r.Arrived), r.Delay(), r.Waited()
	e.Guess, e.Cost, e.Told, e.ToldWasted = r.Guess, r.Cost, r.Told, r.ToldWasted
	e.Client, e.Shape, e.Method, e.Limit, e.ID = r.Who.Client, r.Who.Shape, usual(r.Request.Method), r.Limit, r.ID
	e.Group, e.Outcome, e.Reason, e.Blame, e.Status = r.Group, r.Outcome, r.Verdict.Reason, r.Verdict.Key, r.Status
	e.Orphan, e.Shadow, e.Weight = r.Orphan, r.Verdict.Shadow, weight
	clear(e.keys[:])
	e.keyCount = copy(e.keys[:], r.Who.Keys())
	e.host.set(r.Request.Host)
	e.target.set(r.Request.RequestURI)
}

// usual is one of the methods that a request may have, as a constant: the request's own
// string would keep the memory of its whole head.
func usual(method string) string {
	for _, m := range [...]string{"GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"} {
		if m == method {
			return m
		}
	}
	return ""
}

// text is a string's first bytes.
type text struct {
	n     uint16
	bytes [mostText]byte
}

func (t *text) set(s string)   { t.n = uint16(copy(t.bytes[:], s)) } //nolint:gosec // at most mostText
func (t *text) String() string { return string(t.bytes[:t.n]) }
