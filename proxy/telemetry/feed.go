package telemetry

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"tempomat/limiter"
)

const (
	// mostCheap and mostExpensive are how many requests of a cheap and of an expensive kind a shard keeps until
	// Drain. Each kept request has a weight, with which it represents the others of its kind.
	mostCheap, mostExpensive = 24, 48
	// notable is the cost from which a request counts as expensive, and the delay from which a cheap
	// request is sampled separately (late). least is the cost below which requests are sampled separately
	// as tiny.
	notable = 50 * time.Millisecond
	least   = notable / 100
)

// The kinds of requests. Strangers and robots have one set of kinds, and all others another. Each kind has a
// sample of its own, so a flood of one kind can't crowd out another. Cheap requests of one kind cost about the
// same, so that one of them represents the others well.
const (
	tiny   = iota // answered, and cost less than least
	small         // answered, and cost less than ten times least
	middle        // answered, and cost less than notable
	turned        // refused, redirected or failed
	late          // waited for notable or longer, however they ended
	expensive
	perGroup // number of the kinds above
	kinds    = 2 * perGroup
)

// Batch is a batch of finished requests.
type Batch struct {
	Entries []Entry      // sample of the requests, in no order
	Sums    [Groups]Sums // sums of all finished requests, including those without an entry
}

// Sink adds up what Counts has kept. One goroutine at a time calls it.
type Sink interface {
	// Take adds up finished requests. It must not keep the Batch or its entries.
	Take(now time.Time, b *Batch)
}

// Drain passes the requests since the last call to the sinks. Call it a few times a second.
func (c *Counts) Drain(now time.Time, sinks ...Sink) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.sums()
	c.batch.Sums = all
	for g := range all {
		c.batch.Sums[g].add(&c.taken[g], -1)
	}
	c.taken = all
	for i := range c.shards {
		c.batch.Entries = c.shards[i].drain(c.batch.Entries[:0])
		for _, s := range sinks {
			s.Take(now, &c.batch)
		}
		c.batch.Sums = [Groups]Sums{} // the sums of all shards were in the first batch
	}
	clear(c.batch.Entries[:cap(c.batch.Entries)]) // otherwise the requests' strings would stay in memory
}

// kindOf returns the kind of a request.
func kindOf(r *Record) int {
	if r.Group == Stranger || r.Group == Robot {
		return costKind(r)
	}
	return perGroup + costKind(r)
}

// costKind returns the kind of a request within its group. A request that was reported while it ran counts as
// expensive, because the entry of its end must correct the report.
func costKind(r *Record) int {
	switch {
	case r.Cost >= notable || r.Told > 0:
		return expensive
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

// drain appends the entries of all kinds, and empties the samples.
func (s *shard) drain(to []Entry) []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	for kind := range s.samples {
		to = s.samples[kind].drain(to)
	}
	return to
}

// sample keeps a few of any number of requests. Each request is kept with the same probability.
type sample struct {
	most    int
	entries []Entry
	seen    int // number of requests since the last drain
}

// place returns where to keep the next request, or nil if it isn't kept.
func (s *sample) place() *Entry {
	s.seen++
	if s.entries == nil {
		s.entries = make([]Entry, 0, s.most)
	}
	if n := len(s.entries); n < s.most {
		s.entries = s.entries[:n+1]
		return &s.entries[n]
	}
	if i := rand.IntN(s.seen); i < s.most { //nolint:gosec // the choice needn't be secret
		return &s.entries[i]
	}
	return nil
}

// drain appends the entries, weighted to stand for all requests that were seen, and empties the
// sample.
func (s *sample) drain(to []Entry) []Entry {
	if s.seen == 0 {
		return to
	}
	from := len(to)
	to = append(to, s.entries...)
	for i := range to[from:] {
		to[from+i].Weight = float64(s.seen) / float64(len(s.entries))
	}
	clear(s.entries[:cap(s.entries)]) // otherwise the requests' strings would stay in memory
	s.entries, s.seen = s.entries[:0], 0
	return to
}

// mostText is how many bytes an Entry keeps of a request's target, and of its host.
const mostText = 256

// Entry is the part of a Record that sinks need. It keeps only a small part of the request's memory alive:
// the strings of its keys and shape, which are allocated in pieces of 1 KB.
type Entry struct {
	Ended       time.Time
	Took, Delay time.Duration // Took is the time since the end of the header, and Delay is the part of Took that the request waited
	Waited      time.Duration // like Delay, but also set for refused and redirected requests
	Guess, Cost time.Duration
	Told        time.Duration // part of Cost that Book.Running has already added up
	ToldWasted  time.Duration // part of Told that was spent after the client had disconnected
	Client      netip.Addr
	Shape       string
	Method      string // standard method; empty for other methods
	Limit, ID   string // as in Record
	Group       Group
	Outcome     Outcome
	Reason      limiter.Reason
	Blame       limiter.Key // key whose debt was the reason
	Status      int
	Orphan      bool
	Shadow      bool
	Weight      float64 // number of requests that this one stands for, at least 1

	keys         [limiter.MaxKeys]limiter.Key
	keyCount     int
	host, target text
}

// Why returns the same as Record.Why.
func (e *Entry) Why() string { return why(e.Outcome, e.Reason, e.Limit) }

// Keys returns the keys that were charged. The slice belongs to the Entry.
func (e *Entry) Keys() []limiter.Key { return e.keys[:e.keyCount] }

// Host returns the first bytes of the request's host.
func (e *Entry) Host() string { return e.host.String() }

// Target returns the first bytes of the request's target, unchanged.
func (e *Entry) Target() string { return e.target.String() }

// Set fills the Entry from a Record. The Entry stands for this one request.
func (e *Entry) Set(now time.Time, r *Record) {
	e.Ended, e.Took, e.Delay, e.Waited = now, now.Sub(r.Arrived), r.Delay(), r.Waited()
	e.Guess, e.Cost, e.Told, e.ToldWasted = r.Guess, r.Cost, r.Told, r.ToldWasted
	e.Client, e.Shape, e.Method, e.Limit, e.ID = r.Who.Client, r.Who.Shape, usual(r.Request.Method), r.Limit, r.ID
	e.Group, e.Outcome, e.Reason, e.Blame, e.Status = r.Group, r.Outcome, r.Verdict.Reason, r.Verdict.Key, r.Status
	e.Orphan, e.Shadow, e.Weight = r.Orphan, r.Verdict.Shadow, 1
	clear(e.keys[:])
	e.keyCount = copy(e.keys[:], r.Who.Keys())
	e.host.set(r.Request.Host)
	e.target.set(r.Request.RequestURI)
}

// usual returns a standard method as a constant, because the request's own string would keep all of
// its headers in memory.
func usual(method string) string {
	for _, m := range [...]string{"GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"} {
		if m == method {
			return m
		}
	}
	return ""
}

// text holds the first bytes of a string.
type text struct {
	n     uint16
	bytes [mostText]byte
}

func (t *text) set(s string)   { t.n = uint16(copy(t.bytes[:], s)) } //nolint:gosec // at most mostText
func (t *text) String() string { return string(t.bytes[:t.n]) }
