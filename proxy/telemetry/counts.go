package telemetry

import (
	"sync"
	"sync/atomic"
	"time"

	"tempomat/limiter"
)

// Counts counts requests that are over, each of them. It implements Recorder. Its methods
// may be called concurrently, but for Tell.
type Counts struct {
	shards    [Shards]shard
	counters  []Counter // that are told, too
	malformed atomic.Uint64
	named     atomic.Pointer[named]
	naming    sync.Mutex // taken to replace named
}

// NewCounts makes Counts of nothing, which know no names.
func NewCounts() *Counts {
	c := new(Counts)
	c.named.Store(new(named))
	for i := range c.shards {
		for kind := range c.shards[i].samples {
			c.shards[i].samples[kind].most = mostCheap
		}
		c.shards[i].samples[dear].most = mostDear
		c.shards[i].samples[perGroup+dear].most = mostDear
	}
	return c
}

// Tell has another one count, too. It is called before the first request.
func (c *Counts) Tell(another Counter) { c.counters = append(c.counters, another) }

// Note implements Recorder.
func (c *Counts) Note(now time.Time, r *Record) {
	at := int(r.Shard % Shards)
	s := &c.shards[at]
	s.mu.Lock()
	c.addLocked(at, now, r)
	s.mu.Unlock()
	c.byName(r)
}

// addLocked takes a request in, to a shard that is locked.
func (c *Counts) addLocked(at int, now time.Time, r *Record) {
	s := &c.shards[at]
	s.lately[s.n].set(now, r)
	if s.n++; s.n == mostLately {
		c.countLocked(at)
	}
}

// byName counts what is counted by the names of the configuration, which most are not.
func (c *Counts) byName(r *Record) {
	if r.Limit != "" || r.Verdict.Reason != limiter.None || r.Verdict.Would.Key.Class != "" {
		c.named.Load().count(r)
	}
}

// countLocked counts what came to a shard lately, which is locked.
func (c *Counts) countLocked(at int) {
	s := &c.shards[at]
	some := s.lately[:s.n]
	s.n = 0
	for i := range some {
		s.groups[some[i].Group].add(&some[i])
	}
	for _, another := range c.counters {
		another.Count(at, some)
	}
}

// CatchUp counts what came lately. Whoever is asked for what was counted calls it first.
func (c *Counts) CatchUp() { c.each(func(*[Groups]groupCounts) {}) }

// each catches up, and yields what each shard has counted.
func (c *Counts) each(yield func(*[Groups]groupCounts)) {
	for at := range c.shards {
		s := &c.shards[at]
		s.mu.Lock()
		if s.n > 0 {
			c.countLocked(at)
		}
		yield(&s.groups)
		s.mu.Unlock()
	}
}

// Malformed counts what was to be a request and is none.
func (c *Counts) Malformed() { c.malformed.Add(1) }

// Totals are the counts since the start.
func (c *Counts) Totals() *Totals {
	t := &Totals{Malformed: c.malformed.Load()}
	c.each(func(groups *[Groups]groupCounts) {
		for g := range groups {
			groups[g].addTo(t, Group(g))
		}
	})
	c.named.Load().addTo(t)
	return t
}

// sums are the counts since the start, as far as the Feed tells them.
func (c *Counts) sums() (all [Groups]Sums) {
	c.each(func(groups *[Groups]groupCounts) {
		for g := range groups {
			groups[g].addToSums(&all[g])
		}
	})
	return all
}
