package limiter

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultStrangers is what Gate.Strangers is if it is left out.
const DefaultStrangers = 0.5

// Gate is the shape of the queue before the backend.
type Gate struct {
	// CPUs is how many the backend has; what is below 1 counts as 1.
	CPUs float64
	// Workers is how many the backend has, whatever is found or seen. Zero has the gate go
	// by that.
	Workers int
	// Heavy is how many requests of a size may compute at a time. Zero lets it
	// follow the CPU use that Measure is told, from CPUs up.
	Heavy int
	// Strangers is the least share of the machine of all clients together that are
	// not known yet. Zero is DefaultStrangers.
	Strangers float64
}

// Complete fills in what was left out.
func (g Gate) Complete() Gate {
	g.CPUs = max(1, g.CPUs)
	if g.Strangers <= 0 {
		g.Strangers = DefaultStrangers
	}
	return g
}

// gate is the queue before the backend. A request waits only while those that are
// as short or shorter use the CPUs, while it leaves a CPU to those who had less, or
// while nobody may have the workers that are left.
//
// See ladder.go for who may go, rank.go for who goes first, ahead.go for who makes
// room, strangers.go for those who are not known, address.go for sessions, and
// hold.go for the workers.
type gate struct {
	waiting atomic.Int32 // = queued, for those who do not hold mu

	mu sync.Mutex // guards the following, clients, flows, sites and turns
	books
	named map[string]*site
}

// books are all that the gate goes by; a replica has a copy of them.
type books struct {
	limits  limits
	ranking ranking
	known   *Known
	spare   *lane // not in use
	sites

	within     use // of those within their share
	busy       int // requests at the backend
	load       load
	delayed    ofDelayed     // of all that, of sites that delay
	orphans    int           // those whose client has left
	probeAgain time.Duration // when the next fresh one may be tried
	trustAgain time.Duration // when light ones are taken for light again
	workers    workers

	oldest, newest *Ticket // all that wait, in the order of their arrival
	patient        *Ticket // the oldest of them that has not lost its patience
	queued         int
	seq            uint64
	utilisation    float64 // as last measured; negative: never
	preempts       bool    // see Preempts

	GateCounts
}

// limits are how many requests may be where.
type limits struct {
	cpus      int
	workers   int
	most      [rungs]int // that hold a worker as long as the rung says, or longer
	n         int        // that compute, of a size and shorter; it follows the CPU use unless fixed
	fixed     bool
	least     int     // that compute
	perWorker float64 // what a worker is worth, in CPUs
	perClient int     // that wait
	queue     int     // that wait in all
	maxWait   time.Duration
}

// longest is how many requests of the longest rung may hold a worker.
func (n *limits) longest() int { return n.most[rungs-1] }

func newGate(k *Known) *gate { return &gate{books: books{known: k, utilisation: -1}} }

// setPolicy changes the limits. Requests that wait go on waiting, or are
// released by the next dispatch.
func (g *gate) setPolicy(p *policy) {
	g.mu.Lock()
	defer g.mu.Unlock()
	shape := p.Gate
	cpus := int(math.Ceil(shape.CPUs))
	n := limits{
		cpus: cpus, n: g.limits.n, fixed: shape.Heavy > 0,
		perClient: p.MaxHeldPerClient, queue: p.MaxHeld, maxWait: p.MaxHold,
	}
	if n.fixed {
		n.n = shape.Heavy
	} else if g.limits.fixed {
		n.n = 0
	}
	g.limits = n
	g.workers.configure(shape.Workers)
	g.shape()
	g.ranking = ranking{memory: p.Memory.Seconds(), cpus: shape.CPUs}
	g.setSites(p)
	g.unpark()
}

// arrive takes in a request whose caps are clear, and lets go who may go. What
// it returns, the caller passes to release once it holds no lock.
func (g *gate) arrive(at time.Duration, t *Ticket, share float64) (decided *Ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t.site = g.siteOf(t.siteName)
	g.reach(at, t.site)
	c := g.client(at, t)
	if t.waitingWith() >= g.limits.perClient && !t.site.open {
		if c.known {
			t.seen.Store(asKnown)
		}
		t.refuse(at, Verdict{Action: Refuse, Wait: retry, Key: t.own().Bucket.Key, Reason: ClientFull})
		return nil
	}
	g.seq++
	t.queueEntry = queueEntry{
		client: c, flow: &c.flow, phase: queued, order: g.seq,
		asked: at, gated: at, site: t.site, clock: t.site.clock.systemVirtualTime, bound: math.Inf(1),
	}
	t.level = g.levelOf(t)
	if t.waitEntry != nil {
		t.asked = t.arrived
	}
	g.place(at, t, share)
	t.enterFlow(g)
	g.enqueue(t)
	if g.join(t) {
		g.enqueueHead(at, t)
	}
	decided = g.dispatch(at)
	if g.queued > g.limits.queue {
		decided = g.shedOne(at, decided)
	}
	if t.phase == queued {
		if t.stranger || t.lane.first != t { // only the head of a lane reserves
			t.each(func(s *reservation) { s.Undo(at) })
		}
		t.counts = true
		t.each(func(s *reservation) { s.Bucket.WaitElsewhere(1, t.gated) })
		if t.decidedAtOnce {
			t.decidedAtOnce, t.decided = false, make(chan struct{})
		}
	}
	return decided
}

// place finds the flow of a request, which is its client's own unless that is a stranger or
// of the pool.
func (g *gate) place(at time.Duration, t *Ticket, share float64) {
	c := t.client
	g.noteSeen(at, t)
	c.standing = t.standing
	switch {
	case t.pooled:
		t.flow = &t.site.pool.flow
		t.flow.reweigh(&t.site.clock, share)
		t.seen.Store(asKnown)
		return
	case c.known || t.proven:
		t.seen.Store(asKnown)
	default:
		t.flow, t.stranger = &t.site.strangers.flow, true
		t.seen.Store(asStranger)
	}
	c.weigh(share)
}

// dispatch lets go all that may go.
func (g *gate) dispatch(at time.Duration) (decided *Ticket) {
	g.losePatience(at)
	for g.queued > 0 {
		t, p := g.next(at)
		if t == nil {
			break
		}
		g.start(at, t, p)
		decided = t.chain(decided)
	}
	return decided
}

// enqueue counts a request as waiting.
func (g *gate) enqueue(t *Ticket) {
	if g.newest == nil {
		g.oldest = t
	} else {
		g.newest.later, t.earlier = t, g.newest
	}
	g.newest = t
	if g.patient == nil {
		g.patient = t
	}
	g.queued++
	g.waiting.Add(1)
	g.count(t, 1)
}

// dequeue takes a request out of its lane and the count.
func (g *gate) dequeue(at time.Duration, t *Ticket) {
	if t.earlier == nil {
		g.oldest = t.later
	} else {
		t.earlier.later = t.later
	}
	if t.later == nil {
		g.newest = t.earlier
	} else {
		t.later.earlier = t.earlier
	}
	if g.patient == t {
		g.patient = t.later
	}
	t.earlier, t.later = nil, nil
	g.queued--
	g.waiting.Add(-1)
	g.count(t, -1)
	if t.counts {
		t.counts = false
		t.each(func(s *reservation) { s.Bucket.WaitElsewhere(-1, t.gated) })
	}
	g.leaveLane(at, t)
}
