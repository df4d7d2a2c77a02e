package limiter

import (
	"math"
	"slices"
	"time"
)

// Requests differ in size by a thousand times. In a server that shares its CPUs evenly, a short
// request is soon done next to long ones, as long as these are few; only requests of its own
// size hold it up. So sizes form a ladder, each rung four times the one below it, and a request
// may compute while fewer than a handful of requests as short or shorter compute. Much longer
// ones do not count. Operators need not set which pages of a site are light or heavy.
//
// The idea is that of size-based scheduling, as in a multi-level feedback queue
// (Corbató et al., 1962) and in 2DFQ (Mace et al., SIGCOMM 2016), which keeps
// requests of different sizes apart.

// rung is the size of a request, 0 the shortest.
type rung uint8

const (
	rungs = 7
	// firstRung is the size of the shortest in CPU-seconds: 25 ms, and 100 ms,
	// 400 ms, 1.6, 6.4, 25.6 s for the next ones. Sizes that differ by less than four
	// times, the rank sets right.
	firstRung = 0.025
	perRung   = 4
	// lightRung is the last rung of requests that are done before a person would notice. They
	// may use a kept worker.
	lightRung rung = 1
	// unknownRung is the least of what is not known, and may be expensive.
	unknownRung rung = 3
	// passRung is the last rung on which clients within their share may pass clients ahead of
	// it. Longer requests take too much of the CPUs for that.
	passRung rung = 2
)

// rungOf is the size of a request that takes so many CPU-seconds.
func rungOf(seconds float64) rung {
	r := rung(0)
	for most := firstRung; seconds > most && r < rungs-1; most *= perRung {
		r++
	}
	return r
}

// most is the size of the longest of a rung, in CPU-seconds.
func (r rung) most() float64 {
	x := firstRung
	for range r {
		x *= perRung
	}
	return x
}

// light is what a light request costs at most, in CPU-seconds.
const light = firstRung * perRung // = lightRung.most()

// level is where a request waits: the rungs of requests that compute, one level for requests of
// unknown cost that nothing suggests is high, and the rungs of requests that hold a worker and
// compute little, from the first that is not short.
type level uint8

const (
	fresh  level = rungs
	waits  level = fresh + 1 - level(lightRung+1)
	levels       = int(waits) + rungs
)

// waitsAt is the level of those that hold a worker for as long as rung r says.
func waitsAt(r rung) level { return waits + level(max(r, lightRung+1)) }

// computes reports whether the requests of a level need a CPU.
func (l level) computes() bool { return l <= fresh }

// rung is where a request of the level runs.
func (l level) rung() rung {
	switch {
	case l < fresh:
		return rung(l)
	case l == fresh:
		return unknownRung
	}
	return rung(l - waits)
}

// phase is that of the level's requests once they go.
func (l level) phase() phase {
	if l.computes() {
		return computing
	}
	return holding
}

// short reports whether requests of the level may have a worker that is kept.
func (l level) short() bool { return l <= level(lightRung) }

// levelOf is where a request waits.
func (g *gate) levelOf(t *Ticket) level {
	switch {
	case !t.sure && t.running <= light:
		return fresh
	case !t.sure:
		return level(max(unknownRung, rungOf(t.guess), rungOf(t.running)))
	case g.without(ruleWaits):
	case t.likelyIdle >= patience.Seconds() && t.likelyIdle >= waitsPart*(t.likelyIdle+t.guess):
		return waitsAt(rungOf(max(t.guess, t.likelyIdle*float64(g.limits.cpus)/float64(g.limits.workers))))
	}
	return level(rungOf(t.guess))
}

// waitsPart is the part of its time without computing from which on a request counts as waiting: two
// pages that each compute for a second and wait for a second fill one CPU.
const waitsPart = 7. / 8

// load counts the requests at the backend.
type load struct {
	computing    [rungs]int // those that take part in the ladder
	overShare    [rungs]int // of these, those whose client was over its share
	low          [rungs]int // of those that compute, those of the rung's lower half
	lowOverShare [rungs]int // of these, those over their share
	uninvited    int        // computing requests that did not compute before: no room was made for them
	held         [rungs]int // by how long they hold their worker
	probing      int        // to see what their kind costs; they hold a short one's worker
	holding      int        // requests that compute little
}

// count counts what a request is at the backend, or no longer is.
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

// long is how many of them are not short.
func (l *load) long() int { return from(&l.held, lightRung+1) }

// compute counts a request that computes, or no longer does.
func (l *load) compute(t *Ticket, n int) {
	l.computing[t.rung] += n
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

// upTo sums up the rungs from one to another, which may be beyond the last.
func upTo(counts *[rungs]int, r, last rung) (n int) {
	for ; r <= min(last, rungs-1); r++ {
		n += counts[r]
	}
	return n
}

// from sums up the rungs from r on.
func from(counts *[rungs]int, r rung) int { return upTo(counts, r, rungs-1) }

// access is which clients may go to a rung.
type access uint8

const (
	closed       access = iota
	toUnderShare        // those that are within their share
	open
)

// access tells who may go to rung r where as many compute that are as short or
// shorter, over of them of clients that are over their share.
func (g *gate) access(at time.Duration, r rung, alike, over int) access {
	switch {
	case alike < g.room(at, r):
		return open
	case alike-over < g.limits.slots && g.passes(r):
		return toUnderShare
	}
	return closed
}

// passes reports whether requests of rung r of clients within their share pass those of clients
// ahead of it. If all CPUs are full, a page of 200 ms is done sooner if it waits until one of
// its size is done, because next to each other both would take longer. This doesn't hold if the
// kernel takes the CPUs from the client ahead, nor for pages of seconds, whose clients would
// have given up by then. Sites take turns for those anyway.
func (g *gate) passes(r rung) bool {
	return !g.without(rulePasses) && (r <= lightRung || r > unknownRung && !g.divided || r == passRung && (g.preempts || g.utilisation < idleBelow))
}

// Preempts tells the gate whether processes at the backend give up their CPU at once to clients
// that had less, because their priority follows that. At first they don't. It may be called at
// any time.
func (l *Limiter) Preempts(yes bool) {
	l.gate.mu.Lock()
	defer l.gate.mu.Unlock()
	l.gate.preempts = yes
}

// room is how many requests as short as rung r or shorter may compute: n, and one more for each request that
// only held a worker and then began to compute, because no room was made for it: next to twenty of those,
// two pages at a time would get a tenth of the CPUs. Up to 400 ms there is also room for one more for each
// two requests that are longer by more than a rung, because these use their part of the CPUs for as long as
// they last. Light requests don't get that room shortly after a light one turned out not to be light: there
// may be many like it.
func (g *gate) room(at time.Duration, r rung) int {
	n := g.limits.slots + g.load.uninvited
	if r > passRung || r <= lightRung && at < g.trustAgain && !g.without(ruleDistrust) || g.without(ruleBeside) {
		return n
	}
	return max(n, g.limits.slots+(from(&g.load.computing, r+2)+1)/2)
}

// doors are which clients may go to the lower half of a rung, and to the upper half. For the
// upper half, the lower half of the next rung counts as well: pages of a size at the bound of
// two rungs would otherwise have the room of both.
type doors struct{ low, up access }

// doors tells who may go to rung r where as many compute that are as short or shorter,
// over of them of clients that are over their share.
func (g *gate) doors(at time.Duration, r rung, alike, over int) doors {
	d := doors{low: g.access(at, r, alike, over)}
	if d.up = d.low; r+1 < rungs && !g.without(ruleHalves) {
		d.up = g.access(at, r, alike+g.load.low[r+1], over+g.load.lowOverShare[r+1])
	}
	return d
}

// of is which clients may go where the request waits.
func (d doors) of(t *Ticket) access {
	if t.sure && t.level.computes() && t.guess > t.level.rung().most()/2 {
		return d.up
	}
	return d.low
}

// A client that had more than its share leaves room to those that had less.

// wantsRung reports whether a request waits that would compute on a rung.
func (s *site) wantsRung(r rung) bool {
	return !s.queues[r].empty() || r == unknownRung && !s.queues[fresh].empty()
}

// competes reports whether the head of a lane may take part in the ladder now. A request of an
// unknown kind that may not hold a worker as an expensive one keeps its place if it may soon be
// tried: nothing would wake it when the pause after the last trial ends.
func (g *gate) competes(at time.Duration, t *Ticket) bool {
	if t.level == fresh && !g.mayHold(t, false) && g.mayHold(t, true) {
		return false
	}
	return g.leaves(at, t)
}

// use is how much CPU some requests have recently used.
type use struct {
	sum float64 // CPU-seconds, fading
	at  time.Duration
}

// usedFor is how long what was used counts, in seconds.
const usedFor = 10.0

func (u *use) add(at time.Duration, x float64) {
	u.fade(at)
	u.sum += x
}

func (u *use) fade(at time.Duration) {
	if at > u.at {
		u.sum *= math.Exp(-(at - u.at).Seconds() / usedFor)
		u.at = at
	}
}

// rate is in CPU-seconds per second.
func (u *use) rate(at time.Duration) float64 {
	u.fade(at)
	return u.sum / usedFor
}

// leaves reports whether a long request, whose client is ahead of its share, leaves enough of the CPUs to
// clients within theirs: once it runs, it takes its part for seconds, however many requests arrive then.
// As many may compute as the CPUs that the others recently left free, rounded; somewhat more while a CPU
// is idle, and one more if its client has waited for its share. As on the ladder, much longer requests do
// not count: if a few exports compute for a minute, clients that wait for them give up. Next to requests
// for which no room was made, it takes nothing from the others.
func (g *gate) leaves(at time.Duration, t *Ticket) bool {
	r := t.level.rung()
	if r <= passRung || !t.overShare || !t.level.computes() || g.without(ruleLeaves) {
		return true
	}
	cpus, last := g.ranking.cpus, r+1
	if g.without(ruleLeavesLonger) {
		last = rungs - 1
	}
	more := 0.0
	if g.utilisation >= 0 && g.utilisation < idleBelow { // the room has grown, and CPUs are idle still
		more = float64(g.limits.slots - g.limits.leastSlots)
	}
	switch {
	case g.without(ruleLeavesMore):
	case (t.flow.virtualTime-t.applied-t.site.clock.systemVirtualTime)*t.flow.share <= aheadFrom:
		more++
	case float64(from(&g.load.computing, 0)) < cpus:
		more += max(0, 1-longPart/cpus)
	}
	if t.sure && g.load.uninvited > 0 {
		return true
	}
	return float64(upTo(&g.load.overShare, passRung+1, last))+min(0.5, 1/cpus) <= cpus-g.usedUnderShare.rate(at)+more
}

// longPart is what one more long request takes of an idle moment: of few CPUs a great
// part, for seconds.
const longPart = 1.5

// How the room on the ladder follows the CPU use.
const (
	idleBelow = 0.90 // less is used though a request waits: more may compute
	fullAbove = 0.97 // more is used: fewer would do
	// The room changes by one byPart-th, and by one at least: half of the CPUs are not to
	// stay idle for long where pages wait for a database most of their time.
	byPart = 4
)

// Measure tells the gate what part of the CPUs was used recently, 0 to 1; about
// twice a second. Where pages wait for a database, more of them have to run at a
// time to use the machine: while requests wait for a CPU the room grows by a quarter if
// some are idle, and doubles if half of them are though requests waited at the last call as well.
// It shrinks by a quarter while they are full. A fixed number stays as it is.
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
	n, before := &g.limits, g.roomShort
	g.roomShort = from(&g.load.computing, 0) >= n.slots && g.wanted()
	switch {
	case n.fixed || g.without(ruleGrows):
	case g.roomShort && utilisation < idleBelow:
		more := max(1, n.slots/byPart)
		if before && utilisation < idleBelow/2 { // forty pages that wait for a service have a place within three seconds
			more = n.slots
		}
		n.slots = min(n.slots+more, n.workers)
	case utilisation > fullAbove:
		n.slots = max(n.slots-max(1, n.slots/byPart), n.leastSlots)
	}
	g.dispatch(at)
}

// next is the request to start next, and its phase; nil if there is no room.
func (g *gate) next(at time.Duration) (*Ticket, phase) {
	for _, s := range g.contending {
		s.strangers.reshare(s, g.without(ruleOthersPart))
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

// leastOf is the request of the lowest rank of a site that may go: there is room for it on the
// ladder, and a worker. If the site is held back for another one, only requests that compute
// little may go.
func (g *gate) leastOf(at time.Duration, s *site, held bool) *Ticket {
	c := candidate{at: at, rank: math.Inf(1)}
	alike, over := 0, 0
	for r := rung(0); r < rungs && !held; r++ {
		alike += g.load.computing[r]
		over += g.load.overShare[r]
		if !s.wantsRung(r) {
			continue
		}
		d := g.doors(at, r, alike, over)
		if d.low == closed || !g.hasWorker(r, true) {
			continue
		}
		c.look(g, s, &s.queues[r], d)
		if r == unknownRung {
			c.look(g, s, &s.queues[fresh], d)
		}
	}
	for r := lightRung + 1; r < rungs && g.hasWorker(r, false); r++ {
		c.look(g, s, &s.queues[waitsAt(r)], doors{open, open})
	}
	return c.first()
}

// candidate is the first of those that were looked at.
type candidate struct {
	at    time.Duration
	t     *Ticket
	rank  float64
	tries bool // it is to be tried, and takes no part in the ladder
	// strange is the first of the strangers in their own order, and strangeRank the lowest rank
	// of any of them that may go. They are one flow: it competes by that rank, and its own
	// order decides which stranger takes the turn.
	strange            *Ticket
	order, strangeRank float64
}

// look takes the heads of a queue into account, as far as they may go.
func (c *candidate) look(g *gate, s *site, q *levelQueue, d doors) {
	if t := q.underShare.top(); t != nil && d.of(t) != closed && c.may(g, t) {
		c.offer(t, t.rank)
	}
	if t := q.overShare.top(); t != nil && d.of(t) == open && c.may(g, t) {
		c.offer(t, t.rank)
	}
	if t := q.strange.top(); t != nil && d.of(t) == open && c.may(g, t) {
		order := s.strangers.order(s, q, t)
		c.offerStrange(t, order, order+s.strangers.lead(s))
	}
}

func (c *candidate) may(g *gate, t *Ticket) bool { return c.tries || g.competes(c.at, t) }

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

// first is the one of all that were looked at.
func (c *candidate) first() *Ticket {
	if c.strange != nil {
		c.offer(c.strange, c.strangeRank)
	}
	return c.t
}

// toProbe is the request of unknown kind to try now, in addition to the others: behind a
// queue of expensive ones a style sheet would stay unknown. One is tried at a time. As nothing
// says that it is expensive, it may have a worker that is kept, and go next to one that was tried
// before it and turned out expensive: else all that is not known yet would wait for that.
func (g *gate) toProbe(at time.Duration) *Ticket {
	if at < g.probeAgain || !slices.ContainsFunc(g.contending, g.mayProbe) {
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

// mayProbe reports whether there is room to try a request of a site's.
func (g *gate) mayProbe(s *site) bool {
	if s.queues[fresh].empty() {
		return false
	}
	n := &g.limits
	return !g.without(ruleProbes) && g.load.probing == 0 && g.roomForShort() && g.load.long() < max(n.longMost, n.workers-keptForKnown)
}

func (g *gate) toProbeOf(at time.Duration, s *site) *Ticket {
	for q := &s.queues[fresh]; !q.empty(); {
		c := candidate{at: at, rank: math.Inf(1), tries: true}
		c.look(g, s, q, doors{open, open})
		if t := c.first(); g.mayHold(t, true) {
			return t
		}
		g.park(c.t)
	}
	return nil
}

// learn takes note that what was tried as a request that might be light is not. Its
// like, which may wait in great number, is not tried until all were looked at
// again.
func (g *gate) learn(at time.Duration, was phase) {
	if was == probing && !g.without(ruleProbePause) {
		g.probeAgain = at + probePause
	}
}

// probePause is longer than from one look at what waits to the next.
const probePause = 200 * time.Millisecond

// roomForShort reports whether a short request may go. If the number of workers was not
// configured, a few always may, even when all workers that are believed to exist are
// busy: this shows whether there are more.
func (g *gate) roomForShort() bool {
	return g.busy < g.limits.workers || g.workers.configured == 0 && g.busy-g.load.long() < keptForKnown
}

// keptForKnown is how many workers only requests get that are known to be short.
const keptForKnown = 2

// nextBeyond is a request of the site that has to wait by the rules, and goes as the gate delays no request; nil:
// it has none.
func (s *site) nextBeyond() *Ticket {
	for _, h := range s.heaps() {
		if t := h.top(); t != nil {
			t.beyond = true
			return t
		}
	}
	return nil
}

// heaps are all heaps of a site's lanes' heads.
func (s *site) heaps() (all [3*levels + 1]*headHeap) {
	for i := range s.queues {
		q := &s.queues[i]
		all[3*i], all[3*i+1], all[3*i+2] = &q.underShare, &q.overShare, &q.strange
	}
	all[3*levels] = &s.parked
	return all
}
