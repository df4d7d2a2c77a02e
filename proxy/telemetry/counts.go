package telemetry

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"tempomat/limiter"
)

// countShards is over how many copies of the counters requests that end at the same time
// are spread, so that CPUs seldom wait for each other's.
const countShards = 16

// Counts counts requests that are over, each of them. It implements Recorder. Its methods
// may be called concurrently.
type Counts struct {
	shards    [countShards]countShard
	malformed atomic.Uint64
	named     atomic.Pointer[named]
	naming    sync.Mutex // taken to replace named
}

// countShard is a part of the requests.
type countShard struct {
	requests            [Groups][Outcomes]atomic.Uint64
	refused             [Groups][Refusals]atomic.Uint64
	delayed, shadowed   [Groups]atomic.Uint64
	cost, wasted, delay [Groups]atomic.Int64 // nanoseconds
	_                   [64]byte
}

// NewCounts makes Counts of nothing, which know no names.
func NewCounts() *Counts {
	c := new(Counts)
	c.named.Store(new(named))
	return c
}

// Note implements Recorder.
func (c *Counts) Note(_ time.Time, r *Record) {
	s := &c.shards[rand.Uint32()%countShards] //nolint:gosec // any spread will do
	s.requests[r.Group][r.Outcome].Add(1)
	if r.Cost > 0 {
		s.cost[r.Group].Add(int64(r.Cost))
		if r.Orphan {
			s.wasted[r.Group].Add(int64(r.Cost))
		}
	}
	if d := r.Delay(); d > 0 {
		s.delayed[r.Group].Add(1)
		s.delay[r.Group].Add(int64(d))
	}
	if r.Verdict.Shadow {
		s.shadowed[r.Group].Add(1)
	}
	if r.Outcome == Refused {
		s.refused[r.Group][r.Refusal()].Add(1)
	}
	if r.Limit != "" || r.Verdict.Reason != limiter.None {
		c.named.Load().count(r)
	}
}

// Malformed counts what was to be a request and is none.
func (c *Counts) Malformed() { c.malformed.Add(1) }

// Totals are the counts since the start.
func (c *Counts) Totals() *Totals {
	t := &Totals{Malformed: c.malformed.Load()}
	for i := range c.shards {
		c.shards[i].addTo(t)
	}
	c.named.Load().addTo(t)
	return t
}

func (s *countShard) addTo(t *Totals) {
	for g := range Groups {
		for o := range Outcomes {
			t.Requests[g][o] += s.requests[g][o].Load()
		}
		for r := range Refusals {
			t.Refused[g][r] += s.refused[g][r].Load()
		}
		t.Delayed[g] += s.delayed[g].Load()
		t.Shadowed[g] += s.shadowed[g].Load()
		t.Cost[g] += time.Duration(s.cost[g].Load())
		t.Wasted[g] += time.Duration(s.wasted[g].Load())
		t.Delay[g] += time.Duration(s.delay[g].Load())
	}
}
