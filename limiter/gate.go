package limiter

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// GateOptions are the shape of the queue before the backend.
type GateOptions struct {
	// CPUs is how many the backend has; what is below 1 counts as 1.
	CPUs float64
	// Workers is how many the backend has. Zero: that is found in its configuration, or seen
	// (workers.go).
	Workers int
	// Heavy is how many requests of a size may compute at a time. Zero lets it
	// follow the CPU use that Measure is told, from CPUs up.
	Heavy int
}

// Complete fills in what was left out.
func (g GateOptions) Complete() GateOptions {
	g.CPUs = max(1, g.CPUs)
	return g
}

// gate is the queue before the backend. A request waits only while requests as short or shorter
// use the CPUs, while it leaves a CPU to clients that had less, or while the remaining workers
// are reserved.
//
// ladder.go decides which requests may go, flow.go which goes first, and workers.go which may
// hold workers.
type gate struct {
	waiting atomic.Int32 // = all.n, for those who do not hold mu

	mu      sync.Mutex // guards the following, clients, flows, sites and turns
	decided decisions
	books
	named map[string]*site
}

// books are all that the gate goes by.
type books struct {
	limits  limits
	ranking ranking
	known   *Known
	spare   *lane // not in use
	sites

	usedUnderShare use // of those within their share
	busy           int // requests at the backend
	load           load
	shortUse       shortUse
	orphans        int           // those whose client has left
	probeAgain     time.Duration // when the next fresh one may be tried
	trustAgain     time.Duration // when light ones are treated as light again
	workers        workers

	all         list    // waiting requests, in order of arrival
	patient     *Ticket // the oldest of them that has not lost its patience
	seq         uint64
	utilisation float64 // as last measured; negative: never
	roomShort   bool    // then: requests waited for room on the ladder
	delaysNone  bool    // in mode observe and in shadow each request goes at once, whatever the rules say
	off         Rules   // that tests switch off
	preempts    bool    // see Preempts
	shed        uint64  // refused because the queue was full
}

// limits are how many requests may be where.
type limits struct {
	cpus       int
	workers    int
	longMost   int // that are not short and hold a worker
	slots      int // that compute, of a size and shorter; it follows the CPU use unless fixed
	fixed      bool
	leastSlots int // slots, however full the CPUs are
	queue      int // that wait
	maxWait    time.Duration
}

func newGate(k *Known) *gate { return &gate{books: books{known: k, utilisation: -1}} }

// setPolicy changes the limits. Requests that wait go on waiting, or are
// released by the next dispatch.
func (g *gate) setPolicy(p *activePolicy) {
	g.mu.Lock()
	defer g.mu.Unlock()
	shape := p.Gate
	cpus := int(math.Ceil(shape.CPUs))
	n := limits{
		cpus: cpus, slots: g.limits.slots, fixed: shape.Heavy > 0,
		queue: p.MaxHeld, maxWait: p.MaxHold,
	}
	if n.fixed {
		n.slots = shape.Heavy
	} else if g.limits.fixed {
		n.slots = 0
	}
	g.limits = n
	g.workers.configure(shape.Workers)
	g.delaysNone, g.off = p.Mode != Fair || p.Shadow, p.Without
	g.shape()
	g.ranking = ranking{memory: p.Memory.Seconds(), cpus: shape.CPUs}
	g.setSites(p)
	g.unpark()
}

// unlock frees the gate, and tells the owners of what was decided in the meantime.
func (g *gate) unlock() { g.decided.unlock(&g.mu) }

// arrive takes in a request whose caps are clear, and lets go who may go.
func (g *gate) arrive(at time.Duration, t *Ticket, share float64) {
	g.mu.Lock()
	defer g.unlock()
	t.site = g.siteOf(t.siteName)
	g.reach(t.site)
	c := g.client(at, t)
	g.seq++
	t.queueEntry = queueEntry{
		client: c, flow: &c.flow, phase: queued, order: g.seq,
		asked: at, gated: at, site: t.site, clock: t.site.clock.systemVirtualTime,
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
	g.dispatch(at)
	if g.all.n > g.limits.queue {
		g.shedOne(at)
		g.dispatch(at) // what was behind it is the head of its lane now
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
}

// place finds the flow of a request, which is its client's own unless that is a stranger.
func (g *gate) place(at time.Duration, t *Ticket, share float64) {
	c := t.client
	g.noteSeen(at, t)
	c.standing = t.standing
	switch {
	case c.known || t.proven || t.pooled || g.without(ruleStrangers):
		t.seen.Store(asKnown)
	default:
		t.flow, t.stranger = &t.site.strangers.flow, true
		t.seen.Store(asStranger)
	}
	c.weigh(share)
}

// dispatch starts all requests that may start.
func (g *gate) dispatch(at time.Duration) {
	g.losePatience(at)
	for g.all.n > 0 {
		t, p := g.next(at)
		if t == nil {
			break
		}
		g.start(at, t, p)
		g.decided.add(t)
	}
}

// enqueue counts a request as waiting. One that waited for a cap before keeps its place by
// arrival, because it is refused before later ones.
func (g *gate) enqueue(t *Ticket) {
	after := g.all.last
	for after != nil && after.asked > t.asked {
		after = after.links[byAge].before
	}
	g.all.insert(t, after)
	if g.patient == t.links[byAge].behind {
		g.patient = t
	}
	g.waiting.Add(1)
	t.client.queued++
	g.contend(t.site, 1)
}

// dequeue takes a request out of its lane and the count.
func (g *gate) dequeue(at time.Duration, t *Ticket) {
	if g.patient == t {
		g.patient = t.links[byAge].behind
	}
	g.all.remove(t)
	g.waiting.Add(-1)
	t.client.queued--
	g.contend(t.site, -1)
	if t.counts {
		t.counts = false
		t.each(func(s *reservation) { s.Bucket.WaitElsewhere(-1, t.gated) })
	}
	g.leaveLane(at, t)
}

// phase is where a request is in its life at the gate.
type phase uint8

const (
	outside   phase = iota // not come yet, or done
	queued                 // in a lane
	probing                // running, to see what its kind costs
	computing              // running, on a rung of the ladder
	holding                // running: it holds a worker and computes little
)

// running reports whether the request is at the backend.
func (p phase) running() bool { return p >= probing }

// queueEntry is a request's place at the gate, which guards it, except for client,
// which does not change from when the request is there until it is settled.
type queueEntry struct {
	client     *client // nil: it never came to the gate
	stranger   bool    // it counts for all strangers together
	site       *site
	flow       *flow // whose virtual time it counts for: the client's, or all strangers'
	phase      phase
	level      level         // where it waits, or did
	rung       rung          // where it runs
	low        bool          // of the lower half of that
	overShare  bool          // its client was ahead of its share as it became head of its lane, or is a stranger
	undelayed  bool          // the gate delayed no request as it began
	stays      bool          // it holds its worker until it ends: a stream
	orphan     bool          // its client has left
	uninvited  bool          // it computes after it held a worker only
	counts     bool          // its keys count it as one that waits
	stale      bool          // it waits for longer than a person does
	class      uint8         // among strangers; 0 for others
	beyond     bool          // it went without room, because the gate delays no request
	asked      time.Duration // since when it waits, for a cap or here
	gated      time.Duration // when it came to the gate, after any cap
	paid       float64       // what its flow was charged with, CPU-seconds
	siteCharge siteCharge

	clock          float64 // its site's clock when it arrived
	costMultiplier float64 // as it became head of its lane: baseMultiplier, more if in debt
	rank           float64 // fixed then, so no waiting request is pushed back; for a stranger, its place among strangers
	applied        float64 // how far it really moved the flow's virtual time
	order          uint64  // of arrival

	lane  *lane     // nil: it does not wait
	heap  *headHeap // nil: not the head of its lane
	index int       // there

	links [listKinds]links
}

// list is of tickets that wait. A ticket may be in one of each kind at a time.
type list struct {
	kind        listKind
	first, last *Ticket
	n           int
}

type listKind uint8

const (
	byAge  listKind = iota // all that wait at the gate
	inLane                 // those of a client of one level
	inRoom                 // those that wait for one key's debt
	listKinds
)

// links are a ticket's place in a list.
type links struct{ before, behind *Ticket }

// insert puts a ticket behind another one of the list, or first behind none.
func (l *list) insert(t, after *Ticket) {
	l.n++
	x := &t.links[l.kind]
	x.before = after
	if after == nil {
		x.behind, l.first = l.first, t
	} else {
		x.behind, after.links[l.kind].behind = after.links[l.kind].behind, t
	}
	if x.behind == nil {
		l.last = t
	} else {
		x.behind.links[l.kind].before = t
	}
}

func (l *list) remove(t *Ticket) {
	l.n--
	x := &t.links[l.kind]
	if x.before == nil {
		l.first = x.behind
	} else {
		x.before.links[l.kind].behind = x.behind
	}
	if x.behind == nil {
		l.last = x.before
	} else {
		x.behind.links[l.kind].before = x.before
	}
	*x = links{}
}

// lane is a client's FIFO of requests of one level.
type lane struct {
	list
	level level
	next  *lane // of the client, or spare
}

// laneAt is the client's lane of a level. Free lanes are kept for reuse: at most as many are in
// use as requests wait.
func (g *gate) laneAt(c *client, at level) *lane {
	for l := c.lanes; l != nil; l = l.next {
		if l.level == at {
			return l
		}
	}
	l := g.spare
	if l == nil {
		l = &lane{list: list{kind: inLane}}
	} else {
		g.spare = l.next
	}
	l.level, l.next = at, c.lanes
	c.lanes = l
	return l
}

// join puts a request at the end of its lane, and tells whether it is the head.
func (g *gate) join(t *Ticket) bool {
	l := g.laneAt(t.client, t.level)
	t.lane = l
	l.insert(t, l.last)
	return l.first == t
}

// leaveLane takes a request out of its lane, and its heap if it is the head. The
// next one becomes the head.
func (g *gate) leaveLane(at time.Duration, t *Ticket) {
	l := t.lane
	l.remove(t)
	t.lane = nil
	if l.first == nil {
		g.drain(t.client, l)
	}
	if t.heap == nil {
		return
	}
	t.heap.remove(t)
	if l.first != nil {
		g.enqueueHead(at, l.first)
	}
}

// drain puts an empty lane among the spare ones.
func (g *gate) drain(c *client, l *lane) {
	p := &c.lanes
	for *p != l {
		p = &(*p).next
	}
	*p = l.next
	l.next, g.spare = g.spare, l
}

// decisions are the tickets that were decided while a lock was held. Their owners are woken
// once it is free, in one place, so no path can forget one.
type decisions struct{ first *Ticket }

// add notes that a ticket is decided, if its owner waits for that.
func (d *decisions) add(t *Ticket) {
	if !t.decidedAtOnce {
		t.after, d.first = d.first, t
	}
}

// unlock frees the lock that guards the decisions, and tells the owners.
func (d *decisions) unlock(mu *sync.Mutex) {
	t := d.first
	d.first = nil
	mu.Unlock()
	for t != nil {
		next := t.after // its owner may be done with it as soon as it knows
		t.after = nil
		close(t.decided)
		t = next
	}
}

// start lets a waiting request go.
func (g *gate) start(at time.Duration, t *Ticket, p phase) {
	g.begin(at, t, p)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state = running
	t.verdict = t.goAhead(at)
	t.verdict.SiteAhead, t.verdict.SiteWithin = g.hasOfItsShare(at, t.site)
	t.verdict.Undelayed = t.undelayed
	t.site.waited += at - t.gated
	for i := range t.reservations[:t.n] {
		t.reservations[i].Waited += t.atGate(at) // it waited for others' sake, and so did all its keys
	}
}

// begin counts a waiting request as one at the backend.
func (g *gate) begin(at time.Duration, t *Ticket, p phase) {
	if t.stranger {
		t.site.queues[t.level].went(t)
		g.charge(t)
		t.each(func(s *reservation) { s.Reserve(at, t.guess) })
	}
	g.takeTurn(t)
	g.dequeue(at, t)
	t.undelayed = g.delaysNone
	g.addBusy(t, 1)
	if r := t.level.rung(); p == probing {
		g.countIn(t, probing, 0)
	} else {
		g.countIn(t, p, r)
	}
}

// goAhead explains why and how long a request has waited.
func (t *Ticket) goAhead(at time.Duration) Verdict {
	v := t.verdict // a cap's, or a shadow's
	v.Action, v.CostMultiplier, v.Known, v.Ahead = Go, float32(t.costMultiplier), !t.stranger, t.overShare
	waited := at - t.asked
	if v.Shadow && waited == 0 {
		return v
	}
	if v.Shadow { // what it did wait for counts, and not what it would have
		v.Shadow, v.Key, v.Reason = false, Key{}, None
	}
	v.Wait = waited
	if v.Reason == None && (v.Wait > 0 || t.beyond) {
		v.Reason, v.Shadow = Busy, t.beyond
	}
	return v
}

// progress charges a running request on, and moves it to the rung where it
// belongs.
func (g *gate) progress(at time.Duration, t *Ticket, x float64, computes bool) {
	g.mu.Lock()
	defer g.unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != running || !t.phase.running() {
		return
	}
	if x > t.charged {
		t.applied += g.chargeFlow(t, x-t.paid)
		t.paid = x
		t.adjustLocked(at, x)
	}
	g.chargeSite(t, x)
	was, from := t.phase, t.rung
	r := from
	if !g.without(ruleClimbs) {
		r = max(from, rungOf(t.charged))
	}
	switch {
	case t.stays || !computes && !g.without(ruleWaits):
		g.move(t, holding, r)
	case was != probing || t.charged > light:
		g.move(t, computing, r)
	}
	if t.phase == was && t.rung == from {
		return
	}
	if t.phase != was {
		g.learn(at, was)
	}
	if t.level.short() && t.rung > lightRung && from <= lightRung {
		g.trustAgain = at + patience
	}
	g.dispatch(at)
}

// end takes a running request out.
func (g *gate) end(t *Ticket) {
	g.addBusy(t, -1)
	g.unorphan(t)
	g.countOut(t)
	if t.rung <= lightRung {
		g.unpark()
	}
	t.phase = outside
	t.leaveFlow(g)
}

// finish takes a request out that has cost x CPU-seconds, and forgets one that never waited:
// there are no other references to it, and its memory may soon be reused.
func (g *gate) finish(at time.Duration, t *Ticket, x float64) {
	g.mu.Lock()
	defer g.unlock()
	if !t.phase.running() {
		return
	}
	g.settle(t, x)
	t.site.clock.serve(x)
	g.settleSite(at, t, x)
	if !t.overShare && t.rung <= passRung {
		g.usedUnderShare.add(at, x)
	}
	g.answered(at, t)
	g.end(t)
	if t.decidedAtOnce {
		t.queueEntry = queueEntry{}
	}
	g.dispatch(at)
}

// settle makes x CPU-seconds of what the flow was charged with, and gives back
// no more than was really taken.
func (g *gate) settle(t *Ticket, x float64) {
	if x > t.paid {
		g.chargeFlow(t, x-t.paid)
	} else if t.paid > 0 {
		t.flow.virtualTime -= t.applied * (1 - x/t.paid)
	}
}

// abandon takes a request out, waiting or running, that is never settled. All
// is given back.
func (g *gate) abandon(at time.Duration, t *Ticket) {
	g.mu.Lock()
	defer g.unlock()
	switch t.phase {
	case outside:
		return
	case queued:
		g.drop(at, t)
	case probing, computing, holding:
		t.flow.virtualTime -= t.applied
		g.undoSite(t)
		g.end(t)
	}
	g.dispatch(at)
}

// drop takes a waiting request out, and gives back what its flow was charged.
func (g *gate) drop(at time.Duration, t *Ticket) {
	t.flow.virtualTime -= t.applied
	t.applied = 0
	g.dequeue(at, t)
	t.phase = outside
	t.leaveFlow(g)
}

// refuse ends a waiting request that may not go.
func (g *gate) refuse(at time.Duration, t *Ticket, r Reason) {
	own := r == Busy && g.isOwnDoing(at, t)
	t.site.waited += at - t.gated
	t.site.refused++
	g.drop(at, t)
	t.refuse(at, Verdict{Action: Refuse, Wait: retry, Reason: r, Own: own})
	g.decided.add(t)
}

// shedOne refuses a request because the queue is full. It takes the site that has the most for its
// share, there the flow with the most work (dropping from the fattest flow, as in fq_codel, RFC 8290,
// keeps a flood from pushing others out), there the longest size, and of that the newest request of the
// client that ranks worst. Parts of pages that were just served go last, however many they are, because
// a page is broken without them. Strangers' parts do so only among strangers; otherwise a flood of them
// would push out known clients.
func (g *gate) shedOne(at time.Duration) {
	var worst *Ticket
	for _, h := range g.fattest().heaps() {
		for _, head := range *h {
			if t := head.lane.leastWanted(); worst == nil || t.isShedBefore(worst) {
				worst = t
			}
		}
	}
	g.shed++
	g.refuse(at, worst, ServerFull)
}

// leastWanted is the newest request of the lane that isn't part of a page; if all are parts, the newest.
func (l *lane) leastWanted() *Ticket {
	for t := l.last; t != nil; t = t.links[inLane].before {
		if !t.follows {
			return t
		}
	}
	return l.last
}

func (t *Ticket) isKnownsPart() bool { return t.follows && !t.stranger }

// isShedBefore reports whether a full queue refuses a request of one lane before one of another. The lanes' heads have their ranks.
func (t *Ticket) isShedBefore(o *Ticket) bool {
	switch {
	case t.isKnownsPart() != o.isKnownsPart():
		return o.isKnownsPart()
	case t.flow.work != o.flow.work:
		return t.flow.work > o.flow.work
	case t.follows != o.follows:
		return o.follows
	case t.level.rung() != o.level.rung():
		return t.level.rung() > o.level.rung()
	}
	return o.lane.first.precedes(t.lane.first)
}

// expire refuses who has waited too long, and returns how long until the next
// one will have; negative: no request waits.
func (g *gate) expire(at time.Duration) (next time.Duration) {
	g.mu.Lock()
	defer g.unlock()
	for {
		g.dispatch(at)
		t := g.all.first
		if t == nil {
			return -1
		}
		if left := t.asked + g.limits.maxWait - at; left > 0 {
			return left
		}
		g.refuse(at, t, Busy)
	}
}

// Reguess tells what a waiting request will likely cost, and how long it will hold a worker
// without computing. If it now belongs on another rung, shorter or longer, it moves there.
// Advance handles what changes with time alone.
func (l *Limiter) Reguess(now time.Time, t *Ticket, e Estimate) {
	if t.client == nil {
		return
	}
	l.gate.reguess(l.since(now), t, e)
}

// Estimate is what a request will likely take of the backend. Its fields are
// those of Arrival.
type Estimate struct {
	Guess, Idle, Running time.Duration
	Sure                 bool
}

func (g *gate) reguess(at time.Duration, t *Ticket, e Estimate) {
	g.mu.Lock()
	defer g.unlock()
	if t.phase != queued || g.without(ruleReguesses) {
		return
	}
	idle, guess, sure := t.likelyIdle, t.guess, t.sure
	t.likelyIdle, t.running, t.sure, t.guess = e.Idle.Seconds(), e.Running.Seconds(), e.Sure, e.Guess.Seconds()
	to := g.levelOf(t)
	estimate := t.guess
	t.guess = guess // the guess that its keys were charged
	switch {
	case to != t.level:
		g.relocate(at, t, to, estimate)
	case t.heap == &t.site.parked && (idle != t.likelyIdle || sure != t.sure):
		g.unpark() // it may hold more workers now
	default:
		if t.heap == nil {
			t.guess = estimate
		}
		return // so no other request may go
	}
	g.dispatch(at)
}

// relocate puts a waiting request at the end of its client's lane of another level.
func (g *gate) relocate(at time.Duration, t *Ticket, to level, guess float64) {
	if t.heap != nil {
		t.flow.virtualTime -= t.applied
		t.applied, t.paid = 0, 0
		t.each(func(s *reservation) { s.Undo(at) })
	}
	g.leaveLane(at, t)
	t.level, t.guess = to, guess
	if g.join(t) {
		g.enqueueHead(at, t)
	}
}
