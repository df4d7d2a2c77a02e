package limiter

import (
	"slices"
	"time"
)

// A request waits for a worker only while workers are seen to be short:
//
//   - As many are in use as are configured here, or in the backend's own configuration on this
//     machine.
//   - Connections wait until the backend accepts them. A server that starts workers on demand
//     lets some wait until it has started them. So waiting connections mean that there are no
//     more workers only once they have waited for a while without new processes.
//
// Without any of these the backend may have any number. While its accept queue can be seen, and
// nothing waits there, ever more requests start for as long as any would have to wait.
const (
	// forksFor is how long connections wait until they tell that no worker is started for
	// them: Apache starts some once a second.
	forksFor = 2500 * time.Millisecond
	// blindFor is the same while it is not known how many processes there are.
	blindFor = 8 * time.Second
	// againAfter is the first pause before more workers than were seen are tried again, because
	// their number may have changed; againMost is the longest.
	againAfter, againMost = 10 * time.Second, 10 * time.Minute
	// anyWorkers is more than anything asks for.
	anyWorkers = 1 << 20
	// fewWorkers is how many are tried first while the accept queue can be seen.
	fewWorkers = 16
)

// workers is what the gate knows of how many there are.
type workers struct {
	n          int // now
	configured int // backend.workers; 0: not set
	found      int // in the backend's own configuration; 0: none was
	source     string
	seen       bool          // connections have waited: there are no more than n, until then
	again      time.Duration // when more are tried
	pause      time.Duration // that was waited for that

	looked    bool          // the accept queue was seen
	waits     bool          // at each look since then connections waited
	since     time.Duration // and the processes did not become more
	processes int
	inUse     int // the most at a time, since then
}

// areKnown reports whether their number is; else there may be any.
func (w *workers) areKnown() bool { return w.configured > 0 || w.found > 0 || w.seen }

// most is how many there may be at most.
func (w *workers) most() int {
	if w.found > 0 {
		return w.found
	}
	return anyWorkers
}

// Workers is how many the backend is known to have, and by what. 0: any number.
func (l *Limiter) Workers() (n int, by string) {
	g := l.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.workers.areKnown() {
		return 0, g.workers.source
	}
	return g.workers.n, g.workers.source
}

// Backlog tells how many connections to the backend, from this machine, wait to be accepted, and
// how many processes it has; 0: that is not known. It is told some times a second.
func (l *Limiter) Backlog(now time.Time, queued, processes int) {
	l.gate.backlog(l.since(now), queued, processes)
}

func (g *gate) backlog(at time.Duration, queued, processes int) {
	g.mu.Lock()
	defer g.unlock()
	w := &g.workers
	if w.configured > 0 {
		return
	}
	if !w.looked {
		if w.looked = true; !w.areKnown() {
			g.setWorkers(max(fewWorkers, 2*g.busy), w.source)
		}
	}
	wait := forksFor
	if processes == 0 {
		wait = blindFor
	}
	switch {
	case queued <= 0:
		w.waits = false
		g.press(at)
	case !w.waits || processes > w.processes || g.utilisation > fullAbove: // full CPUs keep a server from accepting
		w.waits, w.since, w.processes, w.inUse = true, at, processes, g.busy-queued
	default:
		w.inUse = max(w.inUse, g.busy-queued)
		if at-w.since >= wait && w.inUse > 0 {
			w.waits = false
			g.refute(at, w.inUse)
		}
	}
	g.dispatch(at)
}

// press lets more go where a request waits for a worker, and no connection waits.
func (g *gate) press(at time.Duration) {
	w := &g.workers
	if w.n >= w.most() || w.seen && at < w.again || !g.lacksWorkers() {
		return
	}
	more, source := w.n, w.source
	if w.seen {
		more, w.again = max(1, w.n/8), at+w.pause
	}
	g.setWorkers(min(w.n+more, w.most()), source)
}

// lacksWorkers reports whether a request waits for a worker, and not for a CPU.
func (g *gate) lacksWorkers() bool {
	if g.all.n == 0 {
		return false
	}
	holds := false
	for _, s := range g.contending {
		holds = holds || len(s.parked) > 0
		for r := lightRung + 1; r < rungs; r++ {
			holds = holds || !s.queues[waitsAt(r)].empty()
		}
	}
	return holds || g.wantsCPU() && from(&g.load.computing, 0) < g.limits.slots || g.busy >= g.limits.workers ||
		g.limits.slots >= g.limits.workers
}

// refute takes in that no more than n were in use while connections waited.
func (g *gate) refute(at time.Duration, n int) {
	w := &g.workers
	w.pause = min(max(againAfter, 2*w.pause), againMost)
	w.again = at + w.pause
	if n = max(n, g.limits.leastSlots+1); n < w.n {
		w.seen = true
		g.setWorkers(n, "connections that wait to be accepted")
	}
}

// Found tells how many workers the backend's own configuration gives it, and what says so; 0:
// none does. A number that is configured here counts more.
func (l *Limiter) Found(now time.Time, n int, source string) {
	l.gate.discover(l.since(now), n, source)
}

func (g *gate) discover(at time.Duration, n int, source string) {
	g.mu.Lock()
	defer g.unlock()
	w := &g.workers
	if w.configured > 0 || w.found == n {
		return
	}
	*w = workers{found: n, looked: w.looked}
	if n > 0 {
		g.setWorkers(n, source)
	} else {
		w.configure(0)
		g.setWorkers(w.n, w.source)
	}
	g.dispatch(at)
}

// configure takes in how many are configured; 0: that is not.
func (w *workers) configure(n int) {
	switch {
	case n > 0 && w.configured != n:
		*w = workers{n: n, configured: n, source: "backend.workers"}
	case n <= 0 && (w.n == 0 || w.configured > 0):
		*w = workers{n: anyWorkers, source: "no connection that waits to be accepted"}
	}
}

func (g *gate) setWorkers(n int, source string) {
	g.workers.n, g.workers.source = n, source
	g.shape()
	g.unpark()
}

// shape makes the limits that the number of workers and of CPUs gives.
func (g *gate) shape() {
	n := &g.limits
	n.workers = g.workers.n
	n.leastSlots = min(n.cpus, n.workers)
	kept := min((keptOf16*n.workers+15)/16, 2*n.cpus+1)
	if g.without(ruleKept) {
		kept = 0
	}
	n.longMost = max(1, n.workers-kept, min(n.cpus, n.workers-1))
	if !n.fixed {
		n.slots = max(n.leastSlots, min(n.slots, n.workers))
	}
}

// A backend has two resources: CPUs and workers. A request that waits for a database, a long
// poll that waits for news, an event stream: each holds a worker and takes almost no CPU. The
// CPUs are idle and seem to have room for more of them, until no worker is left and a page of a
// millisecond waits for a minute.
//
// So all requests that are not short, those that compute and those that wait, may hold some of
// the workers only; the rest is kept for short ones, whatever the CPUs do. Of those that they
// may hold, one client and one network get a part. A client that disconnects before the answer
// leaves an orphan, on which the backend works on: it keeps its place, so its client can't have
// many of them.

const (
	// keptOf16 of 16 workers are kept for short requests.
	keptOf16 = 5
	// slackTimes: no part binds while this many times the kept workers are free.
	slackTimes = 2
	// briefRung is the longest rung whose requests end soon, given their part of the workers: with 16
	// workers and two CPUs, one of those that wait for 12 s ends every 0.8 s.
	briefRung = passRung + 1
)

// Hold marks a running request that keeps its worker until it ends and computes little: an
// event stream, an upgraded connection.
func (l *Limiter) Hold(now time.Time, t *Ticket) {
	if t.client != nil {
		l.gate.holdOn(l.since(now), t)
	}
}

func (g *gate) holdOn(at time.Duration, t *Ticket) {
	g.mu.Lock()
	defer g.unlock()
	if !t.phase.running() || t.stays {
		return
	}
	t.stays = true
	g.learn(at, t.phase)
	g.move(t, holding, rungs-1)
	g.dispatch(at)
}

// Orphan says that the client of a running request has left. The request keeps
// its place until the backend has finished with it.
func (l *Limiter) Orphan(_ time.Time, t *Ticket) {
	if t.client == nil {
		return
	}
	g := l.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if !t.phase.running() || t.orphan {
		return
	}
	t.orphan = true
	g.orphans++
	t.each(func(s *reservation) { s.Bucket.Value.orphans++ })
}

// move puts a running request into another phase, or on another rung.
func (g *gate) move(t *Ticket, p phase, r rung) {
	if t.phase == p && t.rung == r {
		return
	}
	was := t.phase
	g.countOut(t)
	t.uninvited = p == computing && (t.uninvited || was == holding && !g.without(ruleUninvited))
	g.countIn(t, p, r)
}

// countIn counts a request in. One that is tried is on the first rung.
func (g *gate) countIn(t *Ticket, p phase, r rung) {
	if p == holding {
		r = max(r, lightRung+1)
	}
	t.phase, t.rung, t.low = p, r, t.charged <= r.most()/2 && (t.sure || r != t.level.rung())
	t.client.running++
	g.load.count(t, 1)
	if t.level.short() {
		g.shortUse.now = max(g.shortUse.now, g.busy-g.load.long())
	}
	if r > lightRung {
		g.countLong(t, 1)
		if t.level.short() {
			t.client.misjudged++
			*t.site.misjudged.of(t)++
		}
	}
}

// countOut counts a running request out.
func (g *gate) countOut(t *Ticket) {
	t.client.running--
	g.load.count(t, -1)
	if t.rung > lightRung {
		g.countLong(t, -1)
		if t.level.short() {
			t.client.misjudged--
			*t.site.misjudged.of(t)--
		}
		g.unpark()
	}
}

// shortUse is how many workers short requests have recently had at once, or one more if some waited.
type shortUse struct {
	now, before int
	since       time.Duration
}

func (u *shortUse) most() int { return max(u.now, u.before) }

// pass forgets what is long ago.
func (u *shortUse) pass(at time.Duration) {
	if at-u.since >= usedFor*time.Second {
		u.before, u.now, u.since = u.now, 0, at
	}
}

// addBusy counts a request at the backend, or no longer there.
func (g *gate) addBusy(t *Ticket, n int) {
	g.busy += n
	t.site.busy += n
}

// countLong counts a request that is not short, for its keys as well.
func (g *gate) countLong(t *Ticket, n int32) {
	if t.stranger {
		t.site.strangerLong += int(n)
	}
	t.each(func(s *reservation) { s.Bucket.Value.holds += n })
}

// unorphan ends an orphan, if it is one.
func (g *gate) unorphan(t *Ticket) {
	if !t.orphan {
		return
	}
	t.orphan = false
	g.orphans--
	t.each(func(s *reservation) { s.Bucket.Value.orphans-- })
	g.unpark()
}

// hasWorker reports whether there is a worker for a request of rung r. Requests that are not short
// leave some workers to short ones. One that is known to wait, and to end soon, leaves only as many
// as short ones have recently used: if one more comes, a worker will soon be free. Requests that
// compute little leave a worker for each CPU to requests that wait for a CPU; otherwise the CPU
// would be idle. If they took these while no other request wanted them, requests that compute may
// use as many of the kept workers.
func (g *gate) hasWorker(r rung, computes bool) bool {
	n := &g.limits
	if r <= lightRung {
		return g.roomForShort()
	}
	if g.busy >= n.workers || !computes && !g.without(ruleHoldersLeave) && g.wantsCPU() && g.load.holding >= max(1, n.longMost-n.leastSlots) {
		return false
	}
	extra := 0
	if computes && from(&g.load.computing, lightRung+1) < n.leastSlots {
		extra = n.leastSlots
	}
	most := min(n.longMost+extra, max(n.longMost, n.workers-keptForKnown))
	if g.load.long() >= max(most, n.workers-g.shortUse.most()) {
		return false
	}
	brief := !computes && r <= briefRung
	return brief || from(&g.load.held, briefRung+1)+upTo(&g.load.computing, lightRung+1, briefRung) < most
}

// wants reports whether requests wait at one of these levels.
func (g *gate) wants(from, to level) bool {
	return slices.ContainsFunc(g.contending, func(s *site) bool {
		for l := from; l <= to; l++ {
			if !s.queues[l].empty() {
				return true
			}
		}
		return false
	})
}

// wantsCPU reports whether requests wait that are not short and compute.
func (g *gate) wantsCPU() bool { return g.wants(level(lightRung)+1, fresh) }

// mayHold reports whether the keys of a request hold few enough workers for it.
func (g *gate) mayHold(t *Ticket, probe bool) bool {
	by, _ := g.heldBy(t, probe)
	return by == nothing
}

// heldBy reports which of a request's keys holds too many workers, by its index among the
// reservations, and in which way; or that none does. Short requests hold none for long, and neither
// do trials; misjudgedBy reports what keeps those.
func (g *gate) heldBy(t *Ticket, probe bool) (by Barrier, key int) {
	if g.hasSlack() && !g.without(ruleSlack) {
		return nothing, 0
	}
	if t.level.short() || t.level == fresh && probe {
		return g.misjudgedBy(t)
	}
	most := g.limits.longMost
	if t.stranger && !g.without(ruleStrangersPart) && t.site.strangerLong >= max(most/2, 1) && !(t.level.computes() && g.mayCompute(t)) {
		return StrangersHold, 0
	}
	for i := range t.reservations[:t.n] {
		s := &t.reservations[i]
		if s.Bucket == nil || s.Terms.Workers <= 0 || g.without(ruleKeysHold) {
			continue
		}
		if int(s.Bucket.Value.holds) >= max(1, int(s.Terms.Workers*float32(most))) {
			return KeyHolds, i
		}
	}
	return nothing, 0
}

// hasSlack reports whether, with one more request, so many workers are free that no part of them
// matters yet: slackTimes as many as are kept for short requests and as there are CPUs.
func (g *gate) hasSlack() bool {
	n := &g.limits
	return !g.workers.areKnown() || n.workers-g.busy-1 > slackTimes*(n.workers-n.longMost+n.cpus)
}

// mayCompute reports whether a stranger's request that would compute may go although strangers hold their part
// of the workers: its client holds none, and requests that are not much longer leave a CPU free. A request
// that may be expensive, or may only wait, goes alone, until strangers hold most workers; otherwise the cost
// of a page that only strangers request would never be learned. The remaining workers are for requests that
// compute.
func (g *gate) mayCompute(t *Ticket) bool {
	if g.without(ruleMayCompute) {
		return false
	}
	n, long := &g.limits, upTo(&g.load.computing, lightRung+1, t.level.rung()+1)
	return t.own().Bucket.Value.holds == 0 && long < n.leastSlots && (t.sure || t.level != fresh && long == 0 && t.site.strangerLong < n.longMost)
}

// misjudged counts requests that came as short ones and are not.
type misjudged struct{ known, strange int }

// of is the count that a request belongs to.
func (m *misjudged) of(t *Ticket) *int {
	if t.stranger {
		return &m.strange
	}
	return &m.known
}

// misjudgedBy tells what keeps a light request, or one that is tried, from the workers that
// are kept: requests that came as short ones and were not, of its client or of all; a key that
// holds even more than it may.
func (g *gate) misjudgedBy(t *Ticket) (by Barrier, key int) {
	holds := func(i int) int {
		if s := &t.reservations[i]; s.Bucket != nil && s.Terms.Workers > 0 {
			return int(s.Bucket.Value.holds)
		}
		return 0
	}
	if g.without(ruleMisjudges) {
		return nothing, 0
	}
	if t.overShare && t.client.misjudged > 0 {
		return Misjudged, 0
	}
	// Misjudged ones may have used up as many workers as are kept. Those of strangers and of
	// others are counted separately, so neither shuts the other out.
	if used := *t.site.misjudged.of(t); used >= max(1, g.limits.workers-g.limits.longMost) && (t.overShare || holds(0) > 0) {
		return Misjudged, 0
	}
	for i := range t.reservations[:t.n] {
		if n := holds(i); n > 0 && n > int(t.reservations[i].Terms.Workers*float32(g.limits.longMost))+g.limits.leastSlots {
			return KeyHolds, i
		}
	}
	return nothing, 0
}

// park has the head of a lane wait until its keys hold fewer workers.
func (g *gate) park(t *Ticket) {
	t.heap.remove(t)
	t.site.parked.push(t)
}

// unpark has those compete again whose keys hold few enough workers now.
func (g *gate) unpark() {
	for _, s := range g.contending {
		for i := 0; i < len(s.parked); i++ {
			if t := s.parked[i]; g.mayHold(t, true) {
				s.parked.remove(t)
				g.put(t)
				i = -1 // the heap is in another order now
			}
		}
	}
}

// wanted reports whether a request waits for a CPU who may hold a worker. It parks those whom it
// finds that may not.
func (g *gate) wanted() bool {
	return slices.ContainsFunc(g.contending, g.wantedOf)
}

func (g *gate) wantedOf(s *site) bool {
	for l := level(0); l.computes(); l++ {
		q := &s.queues[l]
		for _, h := range [...]*headHeap{&q.underShare, &q.overShare, &q.strange} {
			for t := h.top(); t != nil; t = h.top() {
				if g.mayHold(t, false) {
					return true
				}
				if g.mayHold(t, true) {
					break // it waits for its turn to be tried
				}
				g.park(t)
			}
		}
	}
	return false
}
