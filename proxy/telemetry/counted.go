package telemetry

import "time"

// Counted is what is counted of a request that is over. It is small, as each request leaves
// one, and what these add up to is reckoned for many of them at a time.
type Counted struct {
	Took             time.Duration // from the end of its head; meaningless if nobody Saw it
	Waited           time.Duration // whatever became of it
	delay            time.Duration // as Record.Delay
	cost             time.Duration // not negative
	told, toldWasted time.Duration // as Record has them
	Group            Group
	outcome          Outcome
	refusal          Refusal
	Saw              bool // how long it took at the backend, as its client stayed
	orphan, shadowed bool
	failed           bool // it was answered, with 5xx
}

func (c *Counted) set(now time.Time, r *Record) {
	c.Took, c.Saw = r.Took(now)
	c.Waited, c.delay, c.cost, c.told, c.toldWasted = r.Waited(), r.Delay(), max(0, r.Cost), r.Told, r.ToldWasted
	c.Group, c.outcome, c.refusal = r.Group, r.Outcome, r.Refusal()
	c.orphan, c.shadowed = r.Orphan, r.Shadowed()
	c.failed = r.Outcome == Answered && r.Status >= 500
}

// Took is from the end of the request's head to the end of its answer. It returns false if
// nobody saw that, or it did not go to the backend.
func (r *Record) Took(now time.Time) (time.Duration, bool) {
	switch r.Outcome {
	case Answered, BackendDown, BackendSlow, BackendBroke:
		return now.Sub(r.Arrived), !r.Orphan
	case ClientGone, Refused, Redirected:
	}
	return 0, false
}

// Counter adds up what is counted of requests.
type Counter interface {
	// Count takes in some requests. It keeps nothing of the slice. It is called concurrently
	// for different shards, each below Shards, and by one at a time for the same.
	Count(shard int, some []Counted)
}

// groupCounts are those of a group.
type groupCounts struct {
	requests [Outcomes]uint64
	refused  [Refusals]uint64
	delayed  uint64
	shadowed uint64
	failed   uint64

	delay, cost, wasted, told, toldWasted time.Duration
}

func (g *groupCounts) add(r *Counted) {
	g.requests[r.outcome]++
	g.cost += r.cost
	g.told += r.told
	if r.orphan {
		g.wasted += r.cost
		g.toldWasted += r.toldWasted
	}
	if r.delay > 0 {
		g.delayed++
		g.delay += r.delay
	}
	if r.shadowed {
		g.shadowed++
	}
	if r.failed {
		g.failed++
	}
	if r.outcome == Refused {
		g.refused[r.refusal]++
	}
}

// addTo adds them to those of a group.
func (g *groupCounts) addTo(t *Totals, to Group) {
	for o, n := range g.requests {
		t.Requests[to][o] += n
	}
	for r, n := range g.refused {
		t.Refused[to][r] += n
	}
	t.Delayed[to] += g.delayed
	t.Shadowed[to] += g.shadowed
	t.Cost[to] += g.cost
	t.Wasted[to] += g.wasted
	t.Delay[to] += g.delay
}

// addToSums adds them to what is taken some times a second.
func (g *groupCounts) addToSums(s *Sums) {
	for _, n := range g.requests {
		s.Requests += int(n) //nolint:gosec // nobody counts so far
	}
	s.Refused += int(g.requests[Refused])       //nolint:gosec // nor here
	s.Redirected += int(g.requests[Redirected]) //nolint:gosec // nor here
	s.Backend.add(g)
	s.Cost += g.cost
	s.Wasted += g.wasted
	s.Told += g.told
	s.ToldWasted += g.toldWasted
}

func (b *AtBackend) add(g *groupCounts) {
	n := func(o Outcome) int { return int(g.requests[o]) } //nolint:gosec // nobody counts so far
	b.Requests += n(Answered) + n(BackendDown) + n(BackendSlow) + n(BackendBroke)
	b.Down += n(BackendDown)
	b.Slow += n(BackendSlow)
	b.Broke += n(BackendBroke)
	b.Errors += int(g.failed) //nolint:gosec // nor here
}
