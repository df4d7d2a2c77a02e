package telemetry

import (
	"sync"
	"sync/atomic"
	"time"

	"tempomat/limiter"
)

// Counts counts requests that are over, each of them. It implements Recorder. Its methods
// may be called concurrently.
type Counts struct {
	shards    [Shards]countShard
	malformed atomic.Uint64
	named     atomic.Pointer[named]
	naming    sync.Mutex // taken to replace named
}

// countShard is a part of the requests.
type countShard struct {
	groups [Groups]groupCounts
	_      [64]byte
}

// groupCounts are those of a group. What an answered request changes comes first, and close
// together.
type groupCounts struct {
	cost, delay atomic.Int64 // nanoseconds
	delayed     atomic.Uint64
	requests    [Outcomes]atomic.Uint64
	wasted      atomic.Int64 // nanoseconds
	shadowed    atomic.Uint64
	refused     [Refusals]atomic.Uint64
}

// NewCounts makes Counts of nothing, which know no names.
func NewCounts() *Counts {
	c := new(Counts)
	c.named.Store(new(named))
	return c
}

// Note implements Recorder.
func (c *Counts) Note(_ time.Time, r *Record) {
	s := &c.shards[r.Shard%Shards].groups[r.Group]
	s.requests[r.Outcome].Add(1)
	if r.Cost > 0 {
		s.cost.Add(int64(r.Cost))
		if r.Orphan {
			s.wasted.Add(int64(r.Cost))
		}
	}
	if d := r.Delay(); d > 0 {
		s.delayed.Add(1)
		s.delay.Add(int64(d))
	}
	if r.Shadowed() {
		s.shadowed.Add(1)
	}
	if r.Outcome == Refused {
		s.refused[r.Refusal()].Add(1)
	}
	if r.Limit != "" || r.Verdict.Reason != limiter.None || r.Verdict.Would.Key.Class != "" {
		c.named.Load().count(r)
	}
}

// Malformed counts what was to be a request and is none.
func (c *Counts) Malformed() { c.malformed.Add(1) }

// Totals are the counts since the start.
func (c *Counts) Totals() *Totals {
	t := &Totals{Malformed: c.malformed.Load()}
	for i := range c.shards {
		for g := range Groups {
			c.shards[i].groups[g].addTo(t, g)
		}
	}
	c.named.Load().addTo(t)
	return t
}

func (c *groupCounts) addTo(t *Totals, g int) {
	for o := range Outcomes {
		t.Requests[g][o] += c.requests[o].Load()
	}
	for r := range Refusals {
		t.Refused[g][r] += c.refused[r].Load()
	}
	t.Delayed[g] += c.delayed.Load()
	t.Shadowed[g] += c.shadowed.Load()
	t.Cost[g] += time.Duration(c.cost.Load())
	t.Wasted[g] += time.Duration(c.wasted.Load())
	t.Delay[g] += time.Duration(c.delay.Load())
}
