package limiter

import (
	"math"
	"slices"
	"time"
)

// Requests differ in size by a factor of a thousand. On a server that shares its CPUs evenly, a few long
// requests hardly delay a short one; only requests of its own size do. Sizes therefore form a ladder, on which
// each rung is four times as long as the one below it. A request may compute if only a few requests as short or
// shorter compute; longer ones don't count. Pages needn't be configured as light or heavy.
//
// The idea comes from size-based scheduling, as in a multi-level feedback queue (Corbató et al., 1962) and in
// 2DFQ (Mace et al., SIGCOMM 2016), which keeps requests of different sizes apart.

// rung is a class of request sizes. 0 is the shortest.
type rung uint8

const (
	rungs = 7
	// firstRung is the longest size on the shortest rung, 25 ms, in CPU-seconds. The other rungs end at 100 and
	// 400 ms, 1.6, 6.4 and 25.6 s; the last has no end. Within a rung, rank decides.
	firstRung = 0.025
	perRung   = 4
	// lightRung is the longest rung of light, or short, requests. They finish before a person would notice a
	// delay, and may use a kept worker.
	lightRung rung = 1
	// briefRung is the longest rung of requests that free their worker soon enough for others to wait for it. With
	// 16 workers and two CPUs, one of fifteen requests that each wait for 12 s ends every 0.8 s. Requests of unknown
	// cost wait on this rung or on a longer one, because they may be expensive.
	briefRung rung = 3
	// passRung is the longest rung on which clients within their share pass clients over it even if the CPUs are
	// shared (see passes). Longer requests take too much of the CPUs for that.
	passRung rung = 2
)

// rungOf returns the rung of a request that takes that many CPU-seconds.
func rungOf(seconds float64) rung {
	r := rung(0)
	for most := firstRung; seconds > most && r < rungs-1; most *= perRung {
		r++
	}
	return r
}

// most returns the longest size on the rung, in CPU-seconds.
func (r rung) most() float64 {
	x := firstRung
	for range r {
		x *= perRung
	}
	return x
}

// light is the most that a light request costs, in CPU-seconds.
const light = firstRung * perRung // = lightRung.most()

// level is where a request waits. Requests that compute have a level for each rung. Requests whose cost is
// unknown have one level, if nothing suggests that they are expensive. Requests that hold a worker and compute
// little have a level for each rung except the short ones.
type level uint8

const (
	fresh  level = rungs
	waits  level = fresh + 1 - level(lightRung+1)
	levels       = int(waits) + rungs
)

// waitsAt returns the level of requests that hold a worker for the time of rung r without computing.
func waitsAt(r rung) level { return waits + level(max(r, lightRung+1)) }

// computes reports whether the requests of a level need a CPU.
func (l level) computes() bool { return l <= fresh }

// rung returns the rung on which requests of the level run.
func (l level) rung() rung {
	switch {
	case l < fresh:
		return rung(l)
	case l == fresh:
		return briefRung
	}
	return rung(l - waits)
}

// phase returns the phase of the level's requests once they run.
func (l level) phase() phase {
	if l.computes() {
		return computing
	}
	return holding
}

// short reports whether requests of the level may use a kept worker.
func (l level) short() bool { return l <= level(lightRung) }

// levelOf returns the level at which a request waits.
func (g *gate) levelOf(t *Ticket) level {
	waits := t.likelyIdle >= patience.Seconds() && t.likelyIdle >= waitsPart*(t.likelyIdle+g.likelyCPU(t))
	switch {
	case t.uploads && (waits || !t.sure): // earlier uploads say nothing about this one; its client may take hours
		return waitsAt(rungs - 1)
	case !t.sure && t.running <= light:
		return fresh
	case !t.sure:
		return level(max(briefRung, rungOf(t.guess), rungOf(t.running)))
	case waits:
		return waitsAt(rungOf(max(t.guess, g.idlePrice(t))))
	}
	return level(rungOf(t.guess))
}

// idlePrice returns the cost of holding a worker for as long as a request likely won't compute.
func (g *gate) idlePrice(t *Ticket) float64 {
	return t.likelyIdle * float64(g.limits.cpus) / float64(g.limits.workers)
}

// likelyCPU returns how long a request will likely compute. Its guess includes the cost of holding a worker.
func (g *gate) likelyCPU(t *Ticket) float64 { return max(0, t.guess-g.idlePrice(t)) }

// waitsPart is the part of its time that a request must spend without computing to count as one that waits. It
// is high because two pages that each compute for half of their time keep a whole CPU busy.
const waitsPart = 7. / 8

// load counts the requests at the backend.
type load struct {
	computing    [rungs]int // requests that compute, by rung
	overShare    [rungs]int // those in computing whose client was over its share
	low          [rungs]int // those in computing in the lower half of the rung
	lowOverShare [rungs]int // those in low whose client was over its share
	uninvited    int        // requests that compute but at first only held a worker, so the ladder had made no room for them
	held         [rungs]int // running requests, by how long they hold their worker
	tiny         int        // those in computing[0] that are tiny
	probing      int        // probes, which show what requests of an unknown kind cost; each holds a worker for short requests
	holding      int        // requests that compute little
}

// count adds n to the counts to which a request belongs.
func (l *load) count(t *Ticket, n int) {
	switch t.phase {
	case probing:
		l.probing += n
		return
	case computing:
		l.compute(t, n)
	case holding:
		l.holding += n
	case outside, queued:
	}
	l.held[t.rung] += n
}

// long returns how many running requests aren't short.
func (l *load) long() int { return from(&l.held, lightRung+1) }

// compute adds n to the counts to which a computing request belongs.
func (l *load) compute(t *Ticket, n int) {
	l.computing[t.rung] += n
	t.site.computing[t.rung] += n
	if t.tiny && t.rung == 0 {
		l.tiny += n
	}
	if t.uninvited {
		l.uninvited += n
	}
	if t.overShare {
		l.overShare[t.rung] += n
	}
	if t.low {
		l.low[t.rung] += n
		if t.overShare {
			l.lowOverShare[t.rung] += n
		}
	}
}

// upTo sums the counts of the rungs from r to last, which may be beyond the last rung.
func upTo(counts *[rungs]int, r, last rung) (n int) {
	for ; r <= min(last, rungs-1); r++ {
		n += counts[r]
	}
	return n
}

// from sums the counts of rung r and all longer ones.
func from(counts *[rungs]int, r rung) int { return upTo(counts, r, rungs-1) }

// access is which clients may start requests on a rung.
type access uint8

const (
	closed       access = iota
	toUnderShare        // clients within their share
	open
)

// access returns which clients may start on rung r. alike is the number of computing requests that are as short
// or shorter, and over is how many of these belong to clients over their share.
func (g *gate) access(at time.Duration, r rung, alike, over int) access {
	switch {
	case alike < g.room(at, r), r == 0 && alike-g.load.tiny+g.load.tiny/perTiny < g.limits.slots && g.onlyTinyWait():
		return open
	case alike-over < g.limits.slots && g.passes(r):
		return toUnderShare
	}
	return closed
}

// A tiny request takes at most 1 ms of CPU time, so perTiny of them take no longer than one of the shortest
// rung. While all requests that wait for a CPU are tiny, perTiny count as one. If they started two at a time,
// the proxy and the backend would sleep and wake up for each, which costs more CPU time than the requests.
const perTiny = 25

// isTiny reports whether a request is expected to take at most 1/perTiny of the shortest rung, and hasn't
// exceeded it.
func (t *Ticket) isTiny() bool {
	return t.sure && t.level == 0 && max(t.guess, t.charged) <= firstRung/perTiny
}

// onlyTinyWait reports whether no longer request waits for a CPU, and all that could start next are tiny.
func (g *gate) onlyTinyWait() bool {
	if g.wants(1, fresh) {
		return false
	}
	return !slices.ContainsFunc(g.contending, func(s *site) bool {
		q := &s.queues[0]
		for _, h := range [...]*headHeap{&q.underShare, &q.overShare, &q.strange} {
			if t := h.top(); t != nil && !t.isTiny() {
				return true
			}
		}
		return false
	})
}

// passes reports whether, on rung r, clients within their share may start requests regardless of running
// requests of clients over their share. On passRung, this applies only if a CPU is idle or the kernel preempts:
// while all CPUs are full, a page of 200 ms finishes sooner if it waits for another of its size to finish than
// if both run side by side. It applies to pages that take seconds, because their clients would give up before
// the running pages end. With several sites, it doesn't, because the sites take turns anyway.
func (g *gate) passes(r rung) bool {
	return r <= lightRung || r > briefRung && !g.divided || r == passRung && (g.preempts || g.utilisation < idleBelow)
}

// Preempts sets whether process priorities follow what clients have used, which makes the kernel take a CPU
// from a backend process at once when a client that has used less needs it. The initial value is false.
// Preempts may be called at any time.
func (l *Limiter) Preempts(yes bool) {
	l.gate.mu.Lock()
	defer l.gate.mu.Unlock()
	l.gate.preempts = yes
}

// room returns how many requests of rung r or shorter may compute. It is slots, plus one for each request that
// computes but at first only held a worker. Those requests started regardless of the ladder. Without extra
// room, two pages at a time would get only a tenth of the CPUs next to twenty such requests. Up to 400 ms,
// every two requests that are longer by more than a rung also make room for one more, because a long request
// takes its part of a CPU for as long as it runs. If a light request turns out not to be light, light requests
// don't get that room for a while, because many more may be like it.
func (g *gate) room(at time.Duration, r rung) int {
	n := g.limits.slots + g.load.uninvited
	if r > passRung || r <= lightRung && at < g.trustAgain {
		return n
	}
	return max(n, g.limits.slots+(from(&g.load.computing, r+2)+1)/2)
}

// doors says which clients may start requests of the lower and of the upper half of a rung. For the upper half,
// the requests in the lower half of the next rung also count. Otherwise, similar pages whose costs lie on both
// sides of a boundary between rungs would get the room of both rungs.
type doors struct{ low, up access }

// doors returns which clients may start on rung r. alike is the number of computing requests that are as short
// or shorter, and over is how many of these belong to clients over their share.
func (g *gate) doors(at time.Duration, r rung, alike, over int) doors {
	d := doors{low: g.access(at, r, alike, over)}
	if d.up = d.low; r+1 < rungs {
		d.up = g.access(at, r, alike+g.load.low[r+1], over+g.load.lowOverShare[r+1])
	}
	return d
}

// of returns which clients may start a request like t, which belongs to one half of the rung.
func (d doors) of(t *Ticket) access {
	if t.sure && t.level.computes() && t.guess > t.level.rung().most()/2 {
		return d.up
	}
	return d.low
}

// wantsRung reports whether any request waits to compute on a rung.
func (s *site) wantsRung(r rung) bool {
	return !s.queues[r].empty() || r == briefRung && !s.queues[fresh].empty()
}

// competes reports whether the head of a lane may compete for the ladder now. A request of an unknown kind may
// not compete if its keys hold too many workers for an expensive request. If it may still start as a probe, it
// stays in its queue instead of being parked, because nothing would unpark it when the next probe may start.
func (g *gate) competes(at time.Duration, t *Ticket) bool {
	if t.level == fresh && !g.mayHold(t, false) && g.mayHold(t, true) {
		return false
	}
	return g.leavesCPU(at, t)
}

// use is how much CPU time a group of requests has recently used. Older use counts less and less.
type use struct {
	sum float64 // CPU-seconds, decayed until at
	at  time.Duration
}

// usedFor is the time constant with which use decays.
const usedFor = 10 * time.Second

func (u *use) add(at time.Duration, x float64) {
	u.fade(at)
	u.sum += x
}

func (u *use) fade(at time.Duration) {
	if at > u.at {
		u.sum *= math.Exp(-(at - u.at).Seconds() / usedFor.Seconds())
		u.at = at
	}
}

// rate returns the use in CPU-seconds per second.
func (u *use) rate(at time.Duration) float64 {
	u.fade(at)
	return u.sum / usedFor.Seconds()
}

// leavesCPU reports whether a long request may start although its client is over its share. Once it runs, it
// takes its part of the CPUs for seconds, even if other requests arrive. Such requests may therefore compute
// only on the CPUs that the other clients recently left free, rounded. A few more may start while a CPU is
// idle, and one more if the client is within its share again. As on the ladder, longer requests don't count;
// otherwise, clients would wait until a few exports of a minute end, and would give up. While requests compute
// for which the ladder made no room, one more takes nothing from other clients. If its site has recently used
// less than its part, the request needn't leave a CPU free. Otherwise, a small site with long pages would get
// only a third of its share.
func (g *gate) leavesCPU(at time.Duration, t *Ticket) bool {
	r := t.level.rung()
	if r <= passRung || !t.overShare || !t.level.computes() || t.sure && g.load.uninvited > 0 {
		return true
	}
	if g.divided && t.site.used.rate(at) < g.part(t.site) {
		return true
	}
	cpus, more := g.ranking.cpus, 0.0
	if g.utilisation >= 0 && g.utilisation < idleBelow { // room was added because CPUs were idle, and they still are
		more = float64(g.limits.slots - g.limits.leastSlots)
	}
	switch {
	case t.lead() <= aheadFrom:
		more++
	case float64(from(&g.load.computing, 0)) < cpus:
		more += max(0, 1-longPart/cpus)
	}
	return float64(upTo(&g.load.overShare, passRung+1, r))+min(0.5, 1/cpus) <= cpus-g.usedUnderShare.rate(at)+more
}

// While a CPU is idle, there is room for 1-longPart/CPUs more long requests. With few CPUs, this is less,
// because one long request takes a large part of them for seconds.
const longPart = 1.5

// These constants set how the room on the ladder follows the CPU use.
const (
	idleBelow = 0.90 // below this part of the CPU time, more requests may compute if some wait
	fullAbove = 0.97 // above this, fewer requests may compute
	// The room changes by 1/byPart, and by at least one. If it grew more slowly, half of the CPUs would stay
	// idle for a long time while pages wait for a database.
	byPart = 4
)

// Measure reports what part of the CPU time was used recently, 0 to 1. Call it about twice a second. If pages
// wait for a database, more of them must run at a time to use all CPUs. While requests wait for a CPU and some
// CPUs are idle, the room on the ladder therefore grows by a quarter. If more than half of the CPU time is
// unused and requests also waited at the previous call, the room doubles instead. While the CPUs are full, it
// shrinks by a quarter. A configured number (GateOptions.Heavy) doesn't change.
func (l *Limiter) Measure(now time.Time, utilisation float64) {
	l.gate.measure(l.since(now), utilisation)
}

func (g *gate) measure(at time.Duration, utilisation float64) {
	g.mu.Lock()
	defer g.unlock()
	g.utilisation = utilisation
	if g.shortUse.pass(at); g.wants(0, level(lightRung)) {
		g.shortUse.now = max(g.shortUse.now, g.busy-g.load.long()+1)
	}
	g.knownUse.pass(at)
	g.knownUse.now = max(g.knownUse.now, g.knownLong)
	g.unpark() // less recent use leaves more workers to others
	n, before := &g.limits, g.roomShort
	g.roomShort = from(&g.load.computing, 0) >= n.slots && g.wanted()
	switch {
	case n.fixed:
	case g.roomShort && utilisation < idleBelow:
		more := max(1, n.slots/byPart)
		if before && utilisation < idleBelow/2 { // this lets forty pages that wait for another service start within three seconds
			more = n.slots
		}
		n.slots = min(n.slots+more, n.workers)
	case utilisation > fullAbove:
		n.slots = max(n.slots-max(1, n.slots/byPart), n.leastSlots)
	}
	g.dispatch(at)
}

// next returns the request to start next, and its phase. The request is nil if none may start.
func (g *gate) next(at time.Duration) (*Ticket, phase) {
	for _, s := range g.contending {
		s.strangers.reshare(s)
	}
	if t := g.toProbe(at); t != nil {
		return t, probing
	}
	for {
		t := g.least(at)
		if t == nil {
			break
		}
		if g.mayHold(t, false) {
			return t, t.level.phase()
		}
		g.park(t)
	}
	if !g.delaysNone {
		return nil, queued
	}
	for _, s := range g.contending {
		if t := s.nextBeyond(); t != nil {
			return t, t.level.phase()
		}
	}
	return nil, queued
}

// leastOf returns the request with the lowest rank among those of a site for which there is a worker and room
// on the ladder. If the site is held back because of other sites, only requests that compute little may start.
func (g *gate) leastOf(at time.Duration, s *site) *Ticket {
	c := candidate{at: at, rank: math.Inf(1)}
	alike, over := 0, 0
	for r := range rung(rungs) {
		alike += g.load.computing[r]
		over += g.load.overShare[r]
		if !s.wantsRung(r) {
			continue
		}
		d := g.doors(at, r, alike, over)
		if d.low == closed || !g.hasWorker(r, true) || g.isHeldBack(at, s, r) {
			continue
		}
		c.look(g, s, &s.queues[r], d)
		if r == briefRung {
			c.look(g, s, &s.queues[fresh], d)
		}
	}
	for r := lightRung + 1; r < rungs; r++ {
		if q := &s.queues[waitsAt(r)]; !q.empty() && g.hasWorker(r, false) {
			c.look(g, s, q, doors{open, open})
		}
	}
	return c.first()
}

// candidate is the best of the requests considered so far.
type candidate struct {
	at    time.Duration
	t     *Ticket
	rank  float64
	probe bool // the request would start as a probe, and needs no room on the ladder
	// strange is the first request in the strangers' own order. strangeRank is the lowest rank of any
	// stranger's request that may start. Strangers are one flow, which competes with other clients by
	// strangeRank. If the flow wins, strange starts.
	strange            *Ticket
	order, strangeRank float64
}

// look considers those heads of a queue that may start.
func (c *candidate) look(g *gate, s *site, q *levelQueue, d doors) {
	if t := q.underShare.top(); t != nil && d.of(t) != closed && c.may(g, t) {
		c.offer(t, t.rank)
	}
	if t := q.overShare.top(); t != nil && d.of(t) == open && c.may(g, t) {
		c.offer(t, t.rank)
	}
	if t := q.strange.top(); t != nil && d.of(t) == open && c.may(g, t) {
		c.offerStrange(t, s.strangers.order(q, t), s.strangers.rank(s, q, t))
	}
}

func (c *candidate) may(g *gate, t *Ticket) bool { return c.probe || g.competes(c.at, t) }

func (c *candidate) offer(t *Ticket, rank float64) {
	if c.t == nil || rank < c.rank || rank == c.rank && t.order < c.t.order {
		c.t, c.rank = t, rank
	}
}

func (c *candidate) offerStrange(t *Ticket, order, rank float64) {
	if c.strange == nil || rank < c.strangeRank {
		c.strangeRank = rank
	}
	if c.strange == nil || order < c.order || order == c.order && t.order < c.strange.order {
		c.strange, c.order = t, order
	}
}

// first returns the best of all requests considered.
func (c *candidate) first() *Ticket {
	if c.strange != nil {
		c.offer(c.strange, c.strangeRank)
	}
	return c.t
}

// toProbe returns a request of unknown kind to start as a probe, outside the ladder. Without probes, the cost
// of a style sheet behind a queue of expensive requests would stay unknown. Only one probe runs at a time.
// Nothing suggests that it is expensive, so it may use a kept worker. The next probe may start while earlier
// ones that turned out to be expensive still compute, if these are fewer than the CPUs. Without this limit,
// clients that invent kinds would bypass the ladder and take the CPUs. Probes that have become longer than
// briefRung don't count; otherwise all requests of unknown kinds would wait until a few exports end.
func (g *gate) toProbe(at time.Duration) *Ticket {
	if !slices.ContainsFunc(g.contending, g.mayProbe) {
		return nil
	}
	for _, s := range g.inTurn() {
		if !g.mayProbe(s) {
			continue
		}
		if t := g.toProbeOf(at, s); t != nil {
			return t
		}
	}
	return nil
}

// mayProbe reports whether there is room for a probe among a site's requests.
func (g *gate) mayProbe(s *site) bool {
	if s.queues[fresh].empty() {
		return false
	}
	n := &g.limits
	return g.load.probing == 0 && g.roomForShort() && g.load.long() < max(n.longMost, n.workers-keptForKnown)
}

func (g *gate) toProbeOf(at time.Duration, s *site) *Ticket {
	for q := &s.queues[fresh]; !q.empty(); {
		c := candidate{at: at, rank: math.Inf(1), probe: true}
		c.look(g, s, q, doors{open, open})
		if t := c.first(); g.mayHold(t, true) {
			return t
		}
		g.park(c.t)
	}
	return nil
}

// roomForShort reports whether a short request may start. If the number of workers isn't configured, a few
// short requests may always start, even when all known workers are busy. This shows whether there are more.
func (g *gate) roomForShort() bool {
	return g.busy < g.limits.workers || g.workers.configured == 0 && g.busy-g.load.long() < keptForKnown
}

// keptForKnown is the number of workers that only requests known to be short may use.
const keptForKnown = 2

// nextBeyond returns a request of the site that the rules would delay, or nil if the site has none. It is used
// while the gate delays no request.
func (s *site) nextBeyond() *Ticket {
	for _, h := range s.heaps() {
		if t := h.top(); t != nil {
			t.beyond = true
			return t
		}
	}
	return nil
}

// heaps returns all heaps of a site.
func (s *site) heaps() (all [3*levels + 1]*headHeap) {
	for i := range s.queues {
		q := &s.queues[i]
		all[3*i], all[3*i+1], all[3*i+2] = &q.underShare, &q.overShare, &q.strange
	}
	all[3*levels] = &s.parked
	return all
}
