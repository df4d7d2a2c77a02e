package telemetry

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tempomat/limiter"
)

// Sums are what requests of a group that are over add up to, each of them counted.
type Sums struct {
	Ended    [Outcomes]uint64
	Refused  [Refusals]uint64
	Delayed  uint64
	Shadowed uint64        // that would have been delayed or refused, and were not
	Failed   uint64        // that were answered, with 5xx
	Cost     time.Duration // CPU time
	Wasted   time.Duration // of that, for clients that had left
	Delay    time.Duration // how long they were delayed, all together
	// Fetchers are those that fetch for people, and Fetched what of Cost went into them.
	Fetchers uint64
	Fetched  time.Duration
	// Told and ToldWasted are what of Cost and of Wasted was told while they ran.
	Told, ToldWasted time.Duration
}

// count takes in a request.
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

// Add adds up.
func (s *Sums) Add(o *Sums) { s.add(o, 1) }

// add adds others so many times; -1 takes them away.
func (s *Sums) add(o *Sums, times int64) {
	n := uint64(times) //nolint:gosec // what is taken away was there: the overflow is undone
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

// Requests is how many there were.
func (s *Sums) Requests() (n uint64) {
	for _, x := range s.Ended {
		n += x
	}
	return n
}

// AtBackend is how many of them came to the backend, except for those whose client left.
func (s *Sums) AtBackend() uint64 {
	return s.Ended[Answered] + s.Ended[BackendDown] + s.Ended[BackendSlow] + s.Ended[BackendBroke]
}

// Totals are what Counts counted since the start.
type Totals struct {
	Groups    [Groups]Sums
	Malformed uint64       // what was to be a request and is none; not among the requests
	Classes   []NameTotals // in configured order
	Limits    []NameTotals // in configured order
}

// All is all groups together.
func (t *Totals) All() (all Sums) {
	for g := range t.Groups {
		all.Add(&t.Groups[g])
	}
	return all
}

// NameTotals are the requests that a class was to blame for, or that a request limit is for.
type NameTotals struct {
	Name                       string
	Matched                    uint64 // that a limit is for
	Delayed, Refused, Shadowed uint64 // those that were, or would have been
}

// Refusal is why a request was refused.
type Refusal uint8

// The refusals: the limiter's reasons, then others.
const (
	Unsound   = Refusal(limiter.None)     // it is no request of HTTP; the limiter was not asked
	OverLimit = Refusal(limiter.Busy) + 1 // of a request limit
)

// Refusals is how many there are.
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

// Refusal is why it was refused, if it was.
func (r *Record) Refusal() Refusal {
	if r.Limit != "" {
		return OverLimit
	}
	return Refusal(r.Verdict.Reason)
}

// Counts counts requests that are over, each of them. It implements Recorder. Its methods
// may be called concurrently.
type Counts struct {
	shards    [Shards]shard
	malformed atomic.Uint64
	named     atomic.Pointer[named]
	naming    sync.Mutex // taken to replace named
}

// shard is a part of the requests: those that ended on some CPU.
type shard struct {
	mu      sync.Mutex    // guards the following
	samples [kinds]sample // of the Feed
	groups  [Groups]Sums
	_       [64]byte
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

// Note implements Recorder.
func (c *Counts) Note(_ time.Time, r *Record) {
	s := &c.shards[r.Shard%Shards]
	s.mu.Lock()
	s.groups[r.Group].count(r)
	s.mu.Unlock()
	c.byName(r)
}

// byName counts what is counted by the names of the configuration, which most are not.
func (c *Counts) byName(r *Record) {
	if r.Limit != "" || r.Verdict.Reason != limiter.None || r.Verdict.Would.Key.Class != "" {
		c.named.Load().count(r)
	}
}

// Malformed counts what was to be a request and is none.
func (c *Counts) Malformed() { c.malformed.Add(1) }

// Totals are the counts since the start.
func (c *Counts) Totals() *Totals {
	n := c.named.Load()
	return &Totals{Groups: c.sums(), Malformed: c.malformed.Load(), Classes: n.classes.totals(), Limits: n.limits.totals()}
}

// sums are the counts since the start, by group.
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

// named are the counters of what the configuration names. They are never changed, only
// replaced: a reload brings others.
type named struct{ classes, limits names }

// NameCount counts the requests of a class or a request limit. Its methods may be called concurrently.
type NameCount struct {
	name                                string
	matched, delayed, refused, shadowed atomic.Uint64
}

// Match counts a request that the limit is for.
func (n *NameCount) Match() { n.matched.Add(1) }

type names []*NameCount

// find is the counter of a name, nil if there is none.
func (all names) find(name string) *NameCount {
	for _, n := range all {
		if n.name == name {
			return n
		}
	}
	return nil
}

// of is the counters of some names: those that there are go on, others begin.
func (all names) of(list []string) (some names) {
	for _, name := range list {
		n := all.find(name)
		if n == nil {
			n = &NameCount{name: name}
		}
		some = append(some, n)
	}
	return some
}

func (all names) totals() (t []NameTotals) {
	for _, n := range all {
		t = append(t, NameTotals{n.name, n.matched.Load(), n.delayed.Load(), n.refused.Load(), n.shadowed.Load()})
	}
	return t
}

// SetNames sets the names of classes and request limits. Counts of those that stay continue;
// those of others are forgotten, so there are never more than configured.
func (c *Counts) SetNames(classes, limits []string) {
	c.naming.Lock()
	defer c.naming.Unlock()
	old := c.named.Load()
	c.named.Store(&named{old.classes.of(classes), old.limits.of(limits)})
}

// Limit is the counter of a request limit, a new one if there is none of that name. It is
// kept if the next SetNames tells of it.
func (c *Counts) Limit(name string) *NameCount {
	c.naming.Lock()
	defer c.naming.Unlock()
	old := c.named.Load()
	if l := old.limits.find(name); l != nil {
		return l
	}
	n := &NameCount{name: name}
	c.named.Store(&named{old.classes, append(slices.Clone(old.limits), n)})
	return n
}

// count takes in a request that a class or a limit acted on, or would have.
func (n *named) count(r *Record) {
	if l := n.limits.find(r.Limit); l != nil {
		if r.Outcome == Refused {
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
	if c := n.classes.find(would); c != nil {
		c.shadowed.Add(1)
	}
	if c := n.classes.find(v.Key.Class); c != nil && !v.Shadow {
		if r.Outcome == Refused {
			c.refused.Add(1)
		} else {
			c.delayed.Add(1)
		}
	}
}

// Shards is over how many copies of the counters requests are spread. Requests that end at
// the same time on different CPUs seldom share one.
const Shards = 16

// Nearby tells which shard is this CPU's. Counters that another CPU has just written have to
// come from its cache, which takes longer than to count; so each CPU has a shard that it
// nearly always finds in its own. Its Shard may be called concurrently.
type Nearby struct {
	numbers sync.Pool // of *uint8; the pool keeps an item for each CPU
	given   atomic.Uint32
}

// NewNearby makes a Nearby, of as many shards as there are CPUs.
func NewNearby() *Nearby {
	n := new(Nearby)
	most := uint32(min(Shards, runtime.GOMAXPROCS(0))) //nolint:gosec // at most Shards
	n.numbers.New = func() any {
		shard := uint8(n.given.Add(1) % most) //nolint:gosec // below Shards
		return &shard
	}
	return n
}

// Shard is a number below Shards. It may be another one the next time.
func (n *Nearby) Shard() uint8 {
	number := n.numbers.Get().(*uint8) //nolint:forcetypeassert // there is nothing else in it
	defer n.numbers.Put(number)
	return *number
}
