package limiter

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// What the parts of Gate are if the policy leaves them out.
const (
	DefaultLight     = 100 * time.Millisecond
	DefaultStrangers = 0.5
)

// Gate is the shape of the queue before the backend.
type Gate struct {
	// CPUs is how many the backend has; what is below 1 counts as 1.
	CPUs float64
	// Workers is the most requests at the backend at a time, where the gate does
	// not learn that it has fewer workers. Zero has it learn their number.
	Workers int
	// Heavy is how many of them may be heavy. Zero lets it follow the CPU use
	// that Measure is told, from CPUs up.
	Heavy int
	// Light is what a request may be guessed to cost to count as light. Zero is
	// DefaultLight.
	Light time.Duration
	// Strangers is the share of the machine of all clients together that are not
	// known yet. Zero is DefaultStrangers.
	Strangers float64
}

// Complete fills in what was left out.
func (g Gate) Complete() Gate {
	g.CPUs = max(1, g.CPUs)
	if g.Light <= 0 {
		g.Light = DefaultLight
	}
	if g.Strangers <= 0 {
		g.Strangers = DefaultStrangers
	}
	return g
}

// gate is the queue before the backend. It is work-conserving: a request waits
// only while the slots that it may use are taken.
//
// It knows two kinds of slots. Heavy ones are few, about as many as there are
// CPUs: more would only make everybody slower. Express ones are for requests
// that are likely light; they run beside the heavy ones and are done before
// those notice. Among the express ones strangers have some; while half of the
// CPUs is idle, they also take heavy ones that nobody else wants. A request that
// hardly computes, or turns out a long job, leaves its slot and only holds its
// worker, so that a few of them cannot lock the others out. And one request at a
// time whose kind nobody knows runs as a probe: behind a queue of heavy ones a
// style sheet would stay unknown. All but the express ones together leave some
// workers alone; see hold.go.
// The size-separated slots are the idea of 2DFQ (Mace et al., SIGCOMM 2016).
type gate struct {
	waiting atomic.Int32 // = queued, for those who do not hold mu

	mu        sync.Mutex // guards the following, clients, flows and turns
	limits    limits
	open      bool // no request waits; the slots are only counted
	ranking   ranking
	strangers flow
	known     *Known

	clock  float64 // virtual CPU-seconds per unit of share
	ahead  float64 // the furthest that any flow's tag ever was
	active float64 // the shares of the flows with work, summed up

	light, strange, heavy, unknown, fresh, waits heads // the heads of lanes, by the slots that they may use
	parked                                       heads // those whose keys hold too many workers

	busy, heavyBusy, expressBusy, strangerBusy, probing, holding int // running requests, by their slots

	longBusy, strangerLong int // those in no express slot; strangers' of them
	orphans, lending       int // those whose client has left; those in heavy slots that lend them
	trying                 int // those that try whether there are more workers
	ended                  uint64
	probeAgain             time.Duration // when the next fresh one may be tried
	workers                workers

	oldest, newest *Ticket // all that wait, in the order of their arrival
	queued         int
	seq            uint64
	shed           uint64
	utilisation    float64 // as last measured; negative: never
}

// limits are how many slots there are.
type limits struct {
	cpus      int
	workers   int
	long      int // requests that are not short; the other workers are kept
	heavy     int // now; it follows the CPU use unless fixed
	fixed     bool
	least     int // of heavy
	express   int
	strangers int // of express
	perClient int // that wait
	queue     int // that wait in all
	maxWait   time.Duration
	light     float64 // CPU-seconds
}

// expressPerClient is how many express slots one client may use.
const expressPerClient = 4

func newGate(k *Known) *gate { return &gate{known: k, utilisation: -1} }

// setPolicy changes the slots. Requests that wait go on waiting, or are
// released by the next pump.
func (g *gate) setPolicy(p *policy) {
	g.mu.Lock()
	defer g.mu.Unlock()
	shape := p.Gate
	cpus := int(math.Ceil(shape.CPUs))
	n := limits{
		cpus: cpus, heavy: g.limits.heavy, fixed: shape.Heavy > 0,
		express: 4 * cpus, strangers: cpus,
		perClient: p.MaxHeldPerClient, queue: p.MaxHeld, maxWait: p.MaxHold,
		light: shape.Light.Seconds(),
	}
	if n.fixed {
		n.heavy = shape.Heavy
	} else if g.limits.fixed {
		n.heavy = 0
	}
	g.limits = n
	g.workers.configure(shape.Workers, usualWorkers(shape.CPUs))
	g.shape()
	g.unpark()
	g.open = p.Mode != Fair || p.Shadow
	g.ranking = ranking{memory: p.Memory.Seconds(), cpus: shape.CPUs}
	g.strangers.reweigh(g, shape.Strangers)
}

// arrive takes in a request whose caps are clear, and lets go who may go. What
// it returns, the caller passes to release once it holds no lock.
func (g *gate) arrive(at time.Duration, t *Ticket, share float64) (decided *Ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.client(at, t)
	if int(c.queued) >= g.limits.perClient && !g.open {
		t.refuse(at, Verdict{Action: Refuse, Wait: retry, Key: t.slots[0].bucket.key, Reason: ClientFull})
		return nil
	}
	g.seq++
	t.turn = turn{
		client: c, flow: &c.flow, stage: queued, order: g.seq,
		asked: at, gated: at, clock: g.clock, bound: math.Inf(1),
	}
	t.light, t.waits = g.laneOf(t.sure, t.guess, t.likelyIdle)
	t.fresh = !t.sure && t.running <= g.limits.light
	if t.place != nil {
		t.asked = t.arrived
	}
	if g.meet(at, t); !c.known && !t.proven {
		t.flow, t.stranger = &g.strangers, true
	}
	c.reweigh(g, share)
	c.standing = t.standing
	t.flow.enter(g)
	g.enqueue(t)
	if lane := t.lane(); lane.append(t) {
		g.head(at, t)
	} else {
		t.each(func(s *slot) { s.undo(at) }) // only the head of a lane reserves
	}
	decided = g.pump(at)
	if g.queued > g.limits.queue {
		decided = g.shedOne(at, decided)
	}
	if t.stage == queued && t.told {
		t.told, t.decided = false, make(chan struct{})
	}
	return decided
}

// pump lets go all that may go.
func (g *gate) pump(at time.Duration) (decided *Ticket) {
	for g.queued > 0 {
		t, stage := g.next(at)
		if t == nil {
			break
		}
		g.start(at, t, stage)
		decided = t.chain(decided)
	}
	return decided
}

// laneOf says in which of its client's lanes a request waits: that of light ones,
// of those that hold a worker without computing, or neither.
func (g *gate) laneOf(sure bool, guess, idle float64) (light, waits bool) {
	waits = sure && idle >= waitsFrom && idle >= half*(idle+guess)
	return sure && !waits && guess <= g.limits.light, waits
}

// half of its time without computing, and a request counts as one that waits.
const half = 0.5

// enqueue counts a request as waiting.
func (g *gate) enqueue(t *Ticket) {
	if g.newest == nil {
		g.oldest = t
	} else {
		g.newest.later, t.earlier = t, g.newest
	}
	g.newest = t
	g.queued++
	g.waiting.Add(1)
	t.client.queued++
}

// dequeue takes a request out of its lane, its heap and the count. The next one
// of its lane becomes the head.
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
	t.earlier, t.later = nil, nil
	g.queued--
	g.waiting.Add(-1)
	t.client.queued--
	t.lane().remove(t)
	if t.heap == nil {
		return
	}
	t.heap.remove(t)
	if next := t.lane().first; next != nil {
		g.head(at, next)
	}
}
