package limiter

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// GateOptions describe the queue in front of the backend.
type GateOptions struct {
	// CPUs is how many CPUs the backend has. Values below 1 count as 1.
	CPUs float64
	// Workers is how many workers the backend has. If it is zero, the gate uses the number in the backend's
	// configuration, or estimates it (see workers.go).
	Workers int
	// Heavy is how many requests of one size may compute at a time. If it is zero, the number starts at CPUs
	// and follows the CPU use that Measure reports.
	Heavy int
}

// gate is the queue in front of the backend. A request waits only while requests as short or shorter use the
// CPUs, while its client must leave a CPU for clients that have used less, or while the remaining workers
// are reserved for other requests.
//
// ladder.go decides which requests may start, flow.go which start first, and workers.go which may hold workers.
type gate struct {
	waiting atomic.Int32 // all.n, readable without mu

	mu      sync.Mutex // guards the fields below, and all clients, flows, sites and turns
	decided decisions
	books
	named map[string]*site
}

// books is the state on which the gate's decisions depend.
type books struct {
	limits  limits
	ranking ranking
	known   *Known
	spare   *lane // a list of unused lanes
	sites

	usedUnderShare use // CPU time of requests of clients within their share
	busy           int // requests at the backend
	load           load
	shortUse       recentUse     // of short requests
	knownUse       recentUse     // of known clients' requests that aren't short
	knownLong      int           // known clients' requests at the backend that aren't short
	orphans        int           // requests at the backend whose client has disconnected
	trustAgain     time.Duration // when light requests get extra room again
	workers        workers

	all         list    // waiting requests, in order of arrival
	patient     *Ticket // the oldest waiting request that losePatience hasn't looked at
	seq         uint64
	utilisation float64 // as last measured; negative: never measured
	roomShort   bool    // when last measured, requests waited for room on the ladder
	delaysNone  bool    // true in mode observe and in shadow: every request goes at once, whatever the rules say
	preempts    bool    // see Preempts
	shed        uint64  // requests refused because the queue was full
}

// limits holds the largest number of requests for each place.
type limits struct {
	cpus       int
	workers    int
	longMost   int // requests that aren't short and hold a worker
	slots      int // requests of one size or shorter that may compute at once; follows the CPU use unless fixed
	fixed      bool
	leastSlots int // the smallest value of slots, however full the CPUs are
	queue      int // waiting requests
	maxWait    time.Duration
}

func newGate(k *Known) *gate { return &gate{books: books{known: k, utilisation: -1}} }

// setPolicy changes the limits. Requests that wait stay in the queue; the next dispatch starts those that may
// go under the new limits.
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
	g.delaysNone = p.Mode != Fair || p.Shadow
	g.shape()
	g.ranking = ranking{memory: p.Memory.Seconds(), cpus: shape.CPUs}
	g.setSites(p)
	g.unpark()
}

// unlock unlocks the gate, and then wakes the goroutines whose requests were decided.
func (g *gate) unlock() { g.decided.unlock(&g.mu) }

// arrive queues a request that no cap delays, and then starts every request that may go. It reports whether the
// request waits, and no other does.
func (g *gate) arrive(at time.Duration, t *Ticket, share float64) (waitsAlone bool) {
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
	g.join(at, t)
	g.dispatch(at)
	if g.all.n > g.limits.queue {
		g.shedOne(at)
		g.dispatch(at) // the refused request's lane has a new head, which may go
	}
	if t.phase == queued {
		if t.stranger || t.lane.first != t { // only the head of a lane keeps the guess reserved on its keys
			t.each(func(s *reservation) { s.Undo(at) })
		}
		t.counts = true
		t.each(func(s *reservation) { s.Bucket.WaitElsewhere(1, t.gated) })
		if t.decidedAtOnce {
			t.decidedAtOnce, t.decided = false, make(chan struct{})
		}
	}
	return t.phase == queued && g.all.n == 1
}

// place sets the flow to which a request is charged: its client's own flow, or that of all strangers.
func (g *gate) place(at time.Duration, t *Ticket, share float64) {
	c := t.client
	g.noteSeen(at, t)
	c.standing = t.standing
	if c.known || t.proven || t.pooled {
		t.seen.Store(asKnown)
	} else {
		t.flow, t.stranger = &t.site.strangers.flow, true
		t.seen.Store(asStranger)
	}
	c.weigh(share, t.person)
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

// enqueue adds a request to the list of waiting requests. If the request waited for a cap before, its place in
// the list depends on when that wait began, so the request is refused before those that began to wait later.
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

// dequeue takes a request out of its lane and out of the list of waiting requests.
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

// phase is the stage of a request at the gate.
type phase uint8

const (
	outside   phase = iota // it hasn't arrived at the gate, or it has ended
	queued                 // in a lane
	probing                // running as a probe, to see what its kind costs
	computing              // running, on a rung of the ladder
	holding                // running: it holds a worker and computes little
)

// running reports whether a request in this phase is at the backend.
func (p phase) running() bool { return p >= probing }

// queueEntry is a request's state at the gate, whose lock guards it. Only client may be read without the
// lock, because it doesn't change between arrival and the end of the request.
type queueEntry struct {
	client     *client // nil: the request never arrived at the gate
	stranger   bool    // it belongs to the flow that all strangers share
	site       *site
	flow       *flow // the flow to which it is charged: its client's, or all strangers'
	phase      phase
	level      level         // where it waits, or waited
	rung       rung          // where it runs
	low        bool          // it is in the lower half of its rung
	tiny       bool          // it counts as tiny, see isTiny
	overShare  bool          // when it became the head of its lane, its client was over its share or a stranger
	undelayed  bool          // the gate was delaying no request when this one started
	stays      bool          // it holds its worker until it ends, like a stream
	orphan     bool          // its client has disconnected
	uninvited  bool          // it computes, but at first only held a worker
	counts     bool          // its keys count it as waiting
	stale      bool          // it has waited for longer than patience
	class      uint8         // order among strangers; 0 for known clients
	beyond     bool          // it started although there was no room, because the gate delays no request
	asked      time.Duration // when it began to wait, for a cap or at the gate
	gated      time.Duration // when it arrived at the gate, after any wait for a cap
	paid       float64       // CPU-seconds that its flow was charged
	served     float64       // CPU-seconds by which it has advanced its site's clock
	siteCharge siteCharge

	clock          float64 // its site's clock when it arrived
	costMultiplier float64 // set when it became the head of its lane: baseMultiplier, or more if in debt
	rank           float64 // fixed when it became the head, so later requests can't push it back; for a stranger, its place among strangers
	applied        float64 // how far the charge moved its flow's virtual time
	order          uint64  // its sequence number by arrival

	lane  *lane     // nil: it isn't waiting
	heap  *headHeap // nil: it isn't the head of its lane
	index int       // in heap

	links [listKinds]links
}

// list is a list of waiting tickets. A ticket can be in one list of each kind at a time.
type list struct {
	kind        listKind
	first, last *Ticket
	n           int
}

type listKind uint8

const (
	byAge  listKind = iota // all requests that wait at the gate
	inLane                 // a client's requests of one level
	inRoom                 // requests that wait until one key's debt is paid
	listKinds
)

// links are a ticket's neighbours in a list.
type links struct{ before, behind *Ticket }

// insert puts a ticket behind after, or at the front if after is nil.
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

// lane holds a client's waiting requests of one level, first in, first out.
type lane struct {
	list
	level level
	next  *lane // the client's next lane, or the next spare one
}

// laneAt returns the client's lane of a level. Empty lanes are reused, so there are never more lanes than the
// largest number of requests that ever waited at once.
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

// join puts a request at the end of its lane. If the lane was empty, the request competes for the ladder.
func (g *gate) join(at time.Duration, t *Ticket) {
	l := g.laneAt(t.client, t.level)
	t.lane = l
	if l.insert(t, l.last); l.first == t {
		g.enqueueHead(at, t)
	}
}

// leaveLane takes a request out of its lane. If the request was the head, it also leaves its heap, and the
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

// drain takes an empty lane from the client and keeps it for reuse.
func (g *gate) drain(c *client, l *lane) {
	p := &c.lanes
	for *p != l {
		p = &(*p).next
	}
	*p = l.next
	l.next, g.spare = g.spare, l
}

// decisions are the tickets that were decided while a lock was held. unlock wakes all their owners after it has
// released the lock, so no code path can forget to wake them.
type decisions struct{ first *Ticket }

// add records that a ticket was decided, if its owner waits for that.
func (d *decisions) add(t *Ticket) {
	if !t.decidedAtOnce {
		t.after, d.first = d.first, t
	}
}

// unlock releases the lock that guards the decisions, and wakes the owners.
func (d *decisions) unlock(mu *sync.Mutex) {
	t := d.first
	d.first = nil
	mu.Unlock()
	for t != nil {
		next := t.after // the owner may reuse the ticket as soon as it is woken
		t.after = nil
		close(t.decided)
		t = next
	}
}

// start lets a waiting request go to the backend.
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
		t.reservations[i].Waited += t.atGate(at) // the wait counts for all keys, because other requests caused it
	}
}

// begin counts a waiting request as running.
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

// goAhead returns the verdict for a request that starts: how long it waited, and why.
func (t *Ticket) goAhead(at time.Duration) Verdict {
	v := t.verdict // set if a cap delayed it, or would have delayed it
	v.Action, v.CostMultiplier, v.Known, v.Ahead = Go, float32(t.costMultiplier), !t.stranger, t.overShare
	waited := at - t.asked
	if v.Shadow && waited == 0 {
		return v
	}
	if v.Shadow { // in shadow, report the time that it really waited, not the time that it would have waited
		v.Shadow, v.Key, v.Reason = false, Key{}, None
	}
	v.Wait = waited
	if v.Reason == None && (v.Wait > 0 || t.beyond) {
		v.Reason, v.Shadow = Busy, t.beyond
	}
	return v
}

// progress charges a running request for the CPU time x that it has used so far, and moves it to the rung for
// that time. It starts no waiting request, because those of the same kind must be estimated again first.
// Otherwise, an equally long request of its kind would take its place on each rung that it leaves.
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
	if x > t.served {
		t.site.clock.serve(x - t.served)
		t.served = x
	}
	g.chargeSite(t, x)
	was, from := t.phase, t.rung
	r := max(from, rungOf(t.charged))
	switch {
	case t.stays || !computes:
		g.move(t, holding, r)
	case was != probing || x > light:
		g.move(t, computing, r)
	}
	if t.level.short() && t.rung > lightRung && from <= lightRung {
		g.trustAgain = at + patience
	}
}

// end stops counting a running request.
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

// finish ends a running request that cost x CPU-seconds. If the request never waited, nothing else refers to
// its ticket. finish then also clears its queueEntry, so the memory can be reused.
func (g *gate) finish(at time.Duration, t *Ticket, x float64) {
	g.mu.Lock()
	defer g.unlock()
	if !t.phase.running() {
		return
	}
	g.settle(t, x)
	t.site.clock.serve(max(0, x-t.served))
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

// settle corrects the flow's charge for the request to x CPU-seconds. It gives back at most the virtual time
// that the charge had added.
func (g *gate) settle(t *Ticket, x float64) {
	if x > t.paid {
		g.chargeFlow(t, x-t.paid)
	} else if t.paid > 0 {
		t.flow.virtualTime -= t.applied * (1 - x/t.paid)
	}
}

// abandon removes a waiting or running request that will never be settled, and gives back its whole charge.
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

// drop removes a waiting request, and gives back its flow's charge.
func (g *gate) drop(at time.Duration, t *Ticket) {
	t.flow.virtualTime -= t.applied
	t.applied = 0
	g.dequeue(at, t)
	t.phase = outside
	t.leaveFlow(g)
}

// refuse refuses a waiting request.
func (g *gate) refuse(at time.Duration, t *Ticket, r Reason) {
	own := r == Busy && g.isOwnDoing(at, t)
	t.site.waited += at - t.gated
	t.site.refused++
	g.drop(at, t)
	t.refuse(at, Verdict{Action: Refuse, Wait: retry, Reason: r, Own: own})
	g.decided.add(t)
}

// shedOne refuses one request because the queue is full. It chooses the site with the most requests relative to
// its share. Within that site, it chooses the flow with the most work, then the client that crowds the queue
// most, then the longest size, and then the newest request of the client that ranks last. Because the largest
// flow and its largest client lose a request, a flood can't push out other clients' requests, as in fq_codel
// (RFC 8290). Parts of pages that were just served are refused last, because a page is broken without its parts,
// unless their client crowds the queue. Strangers' parts have this advantage only over other strangers'
// requests; otherwise a flood of parts would push out known clients.
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

// leastWanted returns the lane's newest request that isn't a part of a page, or the newest if all are parts.
func (l *lane) leastWanted() *Ticket {
	for t := l.last; t != nil; t = t.links[inLane].before {
		if !t.follows {
			return t
		}
	}
	return l.last
}

// mostParts is how many requests a client may have waiting before it counts as crowding a full queue: as many as
// the parts of a large page.
const mostParts = 64

// crowd returns how many requests of the client wait, or mostParts if that is more. Up to that number, clients
// that requested a page and its parts aren't told apart from those that requested one page.
func (c *client) crowd() int32 { return max(mostParts, c.queued) }

// isProtected reports whether a full queue refuses the request last: a known client's part of a page.
func (t *Ticket) isProtected() bool {
	return t.follows && !t.stranger && t.client.queued <= mostParts
}

// isShedBefore reports whether a full queue refuses t before o. In a tie, the ranks of the lanes' heads decide.
func (t *Ticket) isShedBefore(o *Ticket) bool {
	switch {
	case t.isProtected() != o.isProtected():
		return o.isProtected()
	case t.flow.work != o.flow.work:
		return t.flow.work > o.flow.work
	case t.client.crowd() != o.client.crowd():
		return t.client.crowd() > o.client.crowd()
	case t.follows != o.follows:
		return o.follows
	case t.level.rung() != o.level.rung():
		return t.level.rung() > o.level.rung()
	}
	return o.lane.first.precedes(t.lane.first)
}

// expire refuses the requests that have waited too long. It returns how long until the next one has waited too
// long, or a negative time if no request waits. An upload that waits for others of its address may start
// instead (see startsLate).
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
		if t.heap != nil && g.startsLate(t) {
			g.start(at, t, t.level.phase())
			g.decided.add(t)
			continue
		}
		g.refuse(at, t, Busy)
	}
}

// Reguess updates what a waiting request will likely cost, and how long it will likely hold a worker without
// computing. If the request now belongs on another rung, shorter or longer, it moves there. The next call of
// Advance starts the requests that may go because of the move. Don't call Reguess only because time has passed;
// Advance handles that.
func (l *Limiter) Reguess(now time.Time, t *Ticket, e Estimate) {
	if t.client == nil {
		return
	}
	l.gate.reguess(l.since(now), t, e)
}

// Estimate is what a request will likely use at the backend. The fields mean the same as in Arrival.
type Estimate struct {
	Guess, Idle, Running time.Duration
	Sure                 bool
}

func (g *gate) reguess(at time.Duration, t *Ticket, e Estimate) {
	g.mu.Lock()
	defer g.unlock()
	if t.phase != queued {
		return
	}
	idle, guess, sure := t.likelyIdle, t.guess, t.sure
	t.likelyIdle, t.running, t.sure, t.guess = e.Idle.Seconds(), e.Running.Seconds(), e.Sure, e.Guess.Seconds()
	to := g.levelOf(t)
	estimate := t.guess
	t.guess = guess // the guess that its keys were charged; kept until the request has moved
	switch {
	case to != t.level:
		g.relocate(at, t, to, estimate)
	case t.heap == &t.site.parked && t.uploads && t.sure && estimate <= light && guess > light:
		g.relocate(at, t, to, estimate) // short uploads don't wait for others
	case t.heap == &t.site.parked && (idle != t.likelyIdle || sure != t.sure):
		g.unpark() // the new estimate may allow it a worker
	case t.heap == nil:
		t.guess = estimate
	}
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
	g.join(at, t)
}
