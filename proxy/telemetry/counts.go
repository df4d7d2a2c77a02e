package telemetry

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"tempomat/limiter"
)

// Sums add up the finished requests of a group. Every request is counted.
type Sums struct {
	Ended    [Outcomes]uint64
	Refused  [Refusals]uint64
	Delayed  uint64
	Shadowed uint64        // requests that would have been delayed or refused without shadow mode
	Failed   uint64        // requests answered with 5xx
	Cost     time.Duration // CPU time
	Wasted   time.Duration // part of Cost that was spent for clients that had disconnected
	Delay    time.Duration // sum of all delays
	// Fetchers is the number of requests from robots that fetch a page for a person. Fetched is their
	// part of Cost.
	Fetchers uint64
	Fetched  time.Duration
	// Told and ToldWasted are the parts of Cost and Wasted that Book.Running had already added up.
	Told, ToldWasted time.Duration
}

// count adds a finished request.
func (s *Sums) count(r *Record) {
	cost := max(0, r.Cost)
	s.Ended[r.Outcome]++
	s.Cost += cost
	s.Told += r.Told
	if r.Orphan {
		s.Wasted += cost
		s.ToldWasted += r.ToldWasted
	}
	if d := r.Delay(); d > 0 {
		s.Delayed++
		s.Delay += d
	}
	if r.Shadowed() {
		s.Shadowed++
	}
	if r.Who.Fetcher {
		s.Fetchers++
		s.Fetched += cost
	}
	switch {
	case r.Outcome == Answered && r.Status >= 500:
		s.Failed++
	case r.Outcome == Refused:
		s.Refused[r.Refusal()]++
	}
}

// Add adds other Sums.
func (s *Sums) Add(o *Sums) { s.add(o, 1) }

// add adds other Sums, or subtracts them if times is -1.
func (s *Sums) add(o *Sums, times int64) {
	n := uint64(times) //nolint:gosec // -1 overflows, so adding the product to an unsigned sum subtracts it
	d := func(x time.Duration) time.Duration { return time.Duration(int64(x) * times) }
	for i := range o.Ended {
		s.Ended[i] += n * o.Ended[i]
	}
	for i := range o.Refused {
		s.Refused[i] += n * o.Refused[i]
	}
	s.Delayed += n * o.Delayed
	s.Shadowed += n * o.Shadowed
	s.Failed += n * o.Failed
	s.Cost += d(o.Cost)
	s.Wasted += d(o.Wasted)
	s.Delay += d(o.Delay)
	s.Fetchers += n * o.Fetchers
	s.Fetched += d(o.Fetched)
	s.Told += d(o.Told)
	s.ToldWasted += d(o.ToldWasted)
}

// Requests returns the number of requests.
func (s *Sums) Requests() (n uint64) {
	for _, x := range s.Ended {
		n += x
	}
	return n
}

// AtBackend returns the number of requests that reached the backend and whose client stayed connected.
func (s *Sums) AtBackend() uint64 {
	return s.Ended[Answered] + s.Ended[BackendDown] + s.Ended[BackendSlow] + s.Ended[BackendBroke]
}

// Totals are the counts since the start.
type Totals struct {
	Groups    [Groups]Sums
	Malformed uint64       // invalid requests, which aren't in Groups
	Classes   []NameTotals // counts in configured order
	Limits    []NameTotals // counts in configured order
}

// All adds up all groups.
func (t *Totals) All() (all Sums) {
	for g := range t.Groups {
		all.Add(&t.Groups[g])
	}
	return all
}

// NameTotals counts the requests that a class delayed or refused, or to which a request limit applied.
type NameTotals struct {
	Name                       string
	Matched                    uint64 // requests to which the limit applied
	Delayed, Refused, Shadowed uint64 // Shadowed counts requests that would have been delayed or refused
}

// Refusal is the reason why a request was refused.
type Refusal uint8

// Refusals in addition to the limiter's reasons.
const (
	Unsound   = Refusal(limiter.None)     // the request was invalid and never reached the limiter
	OverLimit = Refusal(limiter.Busy) + 1 // a request limit was exceeded
)

// Refusals is the number of refusals.
const Refusals = int(OverLimit) + 1

func (r Refusal) String() string {
	switch r {
	case Unsound:
		return "unsound"
	case OverLimit:
		return "limit"
	}
	return limiter.Reason(r).String()
}

// Refusal returns why the request was refused. It is meaningless for other requests.
func (r *Record) Refusal() Refusal {
	if r.Limit != "" {
		return OverLimit
	}
	return Refusal(r.Verdict.Reason)
}

// Counts counts every finished request, and keeps a sample of the requests, in bounded memory, until Drain
// passes it on. It implements Recorder. Its methods may be called concurrently.
type Counts struct {
	shards          []shard
	malformed       atomic.Uint64
	classes, limits names

	mu    sync.Mutex // guards the fields below; locked before that of a shard
	taken [Groups]Sums
	batch Batch
}

// mostShards is the largest number of copies of the counters. With several, requests that end at the same time
// on different CPUs seldom wait for each other.
const mostShards = 16

// shard holds the counts of some requests, chosen at random to avoid contention.
type shard struct {
	mu      sync.Mutex // guards the fields below
	samples [kinds]sample
	groups  [Groups]Sums
	_       [64]byte
}

// NewCounts makes empty Counts without names.
func NewCounts() *Counts {
	c := &Counts{shards: make([]shard, min(mostShards, runtime.GOMAXPROCS(0)))}
	for i := range c.shards {
		for kind := range c.shards[i].samples {
			c.shards[i].samples[kind].most = mostCheap
		}
		c.shards[i].samples[expensive].most = mostExpensive
		c.shards[i].samples[perGroup+expensive].most = mostExpensive
	}
	return c
}

// Note implements Recorder.
func (c *Counts) Note(now time.Time, r *Record) {
	kind := kindOf(r)
	s := &c.shards[rand.IntN(len(c.shards))] //nolint:gosec // any spread will do
	s.mu.Lock()
	s.groups[r.Group].count(r)
	if e := s.samples[kind].place(); e != nil {
		e.Set(now, r)
	}
	s.mu.Unlock()
	if r.Limit != "" || r.Verdict.Reason != limiter.None || r.Verdict.Would.Key.Class != "" {
		c.countNames(r)
	}
}

// Malformed counts an invalid request.
func (c *Counts) Malformed() { c.malformed.Add(1) }

// Totals returns the counts since the start.
func (c *Counts) Totals() *Totals {
	return &Totals{Groups: c.sums(), Malformed: c.malformed.Load(), Classes: c.classes.totals(), Limits: c.limits.totals()}
}

// sums returns the counts of each group since the start.
func (c *Counts) sums() (all [Groups]Sums) {
	for at := range c.shards {
		s := &c.shards[at]
		s.mu.Lock()
		for g := range s.groups {
			all[g].Add(&s.groups[g])
		}
		s.mu.Unlock()
	}
	return all
}

// names are the counters of classes or of request limits, by name.
type names struct {
	counters sync.Map // maps names, including those of earlier configurations, to *NameCount
	shown    atomic.Pointer[[]string]
}

// NameCount counts the requests of a class or a request limit. Its methods may be called concurrently.
type NameCount struct {
	matched, delayed, refused, shadowed atomic.Uint64
}

// Match counts a request to which the limit applies.
func (n *NameCount) Match() { n.matched.Add(1) }

// of returns the counter of a name.
func (n *names) of(name string) *NameCount {
	c, has := n.counters.Load(name)
	if !has {
		c, _ = n.counters.LoadOrStore(name, new(NameCount))
	}
	return c.(*NameCount) //nolint:forcetypeassert // it holds only values of this type
}

// totals returns the counts of the names that SetNames has set.
func (n *names) totals() (t []NameTotals) {
	shown := n.shown.Load()
	if shown == nil {
		return nil
	}
	for _, name := range *shown {
		c := n.of(name)
		t = append(t, NameTotals{name, c.matched.Load(), c.delayed.Load(), c.refused.Load(), c.shadowed.Load()})
	}
	return t
}

// SetNames sets the names of classes and request limits that Totals shows.
func (c *Counts) SetNames(classes, limits []string) {
	c.classes.shown.Store(&classes)
	c.limits.shown.Store(&limits)
}

// Limit returns the counter of a request limit.
func (c *Counts) Limit(name string) *NameCount { return c.limits.of(name) }

// countNames counts a request for the class or limit that acted on it, or would have acted on it.
func (c *Counts) countNames(r *Record) {
	if r.Limit != "" {
		if l := c.limits.of(r.Limit); r.Outcome == Refused {
			l.refused.Add(1)
		} else {
			l.shadowed.Add(1)
		}
	}
	v := &r.Verdict
	would := v.Would.Key.Class
	if would == "" && v.Shadow {
		would = v.Key.Class
	}
	if would != "" {
		c.classes.of(would).shadowed.Add(1)
	}
	if v.Key.Class != "" && !v.Shadow {
		if class := c.classes.of(v.Key.Class); r.Outcome == Refused {
			class.refused.Add(1)
		} else {
			class.delayed.Add(1)
		}
	}
}
