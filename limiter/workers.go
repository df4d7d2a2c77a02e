package limiter

import (
	"container/heap"
	"slices"
	"time"
)

// A request waits for a worker only if there is evidence that all workers are in use. There are two kinds of
// evidence:
//
//   - tempomat's configuration, or the backend's own configuration on this machine, sets the number of workers,
//     and that many are in use.
//   - Connections wait until the backend accepts them. A server that starts workers on demand lets some
//     connections wait until it has started more. Waiting connections are therefore evidence only if they have
//     waited for a while and no new processes have started. If they wait at only some of php-fpm's pools, they
//     are evidence only while the other pools aren't in use.
//
// Without such evidence, the backend may have any number of workers. While no connection waits in the accept
// queue, the gate raises the number that it assumes whenever a request would have to wait for a worker.
//
// Connections may also wait because the machine stalled for some seconds. After evidence of the second kind, the
// gate therefore tests whether there are more workers: after a pause, or at once if more are in use than it assumes.
// Each test adds an eighth, or twice as many as are in use beyond the number that the evidence suggested. If the backend's
// configuration promises more, the number doubles: a client that is alone gets only a part of the workers, so it can't
// show that there are more.
const (
	// forksFor is how long connections must wait before the gate concludes that the backend isn't starting more
	// workers for them. Apache starts workers once a second.
	forksFor = 2500 * time.Millisecond
	// blindFor is used instead of forksFor if the number of processes is unknown.
	blindFor = 8 * time.Second
	// againMost is the longest pause before the gate tests again whether there are more workers than it has seen,
	// because the number may have changed. The first pause is usedFor.
	againMost = 10 * time.Minute
	// anyWorkers is larger than any real number of workers.
	anyWorkers = 1 << 20
	// fewWorkers is the number that is assumed at first if the accept queue can be read.
	fewWorkers = 16
)

// workers is what the gate knows about the number of workers.
type workers struct {
	n          int // the number currently assumed
	configured int // backend.workers; 0 if not set
	found      int // the number in the backend's own configuration; 0 if none was found
	source     string
	seen       bool          // connections have waited, so there seem to be no more than n workers
	again      time.Duration // when to test whether there are more
	pause      time.Duration // the pause before that test
	lowered    int           // n when the gate last lowered it

	looked    bool          // the accept queue has been read
	waits     bool          // connections were waiting each time the accept queue was read
	since     time.Duration // when waits became true; no process has been added since
	processes int
	inUse     int // the largest number of workers in use at once since then
	always    int // the smallest number
}

// areKnown reports whether the number of workers is known. If it isn't, there may be any number.
func (w *workers) areKnown() bool { return w.configured > 0 || w.found > 0 || w.seen }

// most returns the largest number of workers that there may be.
func (w *workers) most() int {
	if w.found > 0 {
		return w.found
	}
	return anyWorkers
}

// Workers returns how many workers the backend is known to have, and the source of that number. 0 means that
// there may be any number.
func (l *Limiter) Workers() (n int, by string) {
	g := l.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.workers.areKnown() {
		return 0, g.workers.source
	}
	return g.workers.n, g.workers.source
}

// Backlog reports how many connections from this machine to the backend are waiting to be accepted, and how
// many processes the backend has (0 if unknown). If they wait at only some of several pools, full is how many
// workers these pools have; otherwise it is 0. Call it a few times a second.
func (l *Limiter) Backlog(now time.Time, queued, processes, full int) {
	l.gate.backlog(l.since(now), queued, processes, full)
}

func (g *gate) backlog(at time.Duration, queued, processes, full int) {
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
	case !w.waits || processes > w.processes || g.utilisation > fullAbove: // a server with busy CPUs may also leave connections waiting
		w.waits, w.since, w.processes, w.inUse, w.always = true, at, processes, g.busy-queued, g.busy-queued
	default:
		w.inUse, w.always = max(w.inUse, g.busy-queued), min(w.always, g.busy-queued)
		if at-w.since >= wait && w.inUse > 0 {
			w.waits = false
			if full == 0 || w.always <= full { // otherwise other pools are in use, and accept their connections
				g.refute(at, w.inUse)
			}
		}
	}
	g.dispatch(at)
}

// press raises the assumed number of workers if a request waits for one and no connection waits to be accepted.
func (g *gate) press(at time.Duration) {
	w := &g.workers
	if w.n >= w.most() || w.seen && at < w.again && g.busy <= w.n || !g.lacksWorkers() {
		return
	}
	more, source := w.n, w.source
	if w.seen {
		if w.found == 0 {
			more = max(1, w.n/8)
		}
		if g.busy > w.lowered+keptForKnown {
			more, w.pause = max(more, 2*(g.busy-w.lowered)), usedFor
		}
		w.again = at + w.pause
	}
	g.setWorkers(min(w.n+more, w.most()), source)
}

// lacksWorkers reports whether a request waits for a worker rather than for a CPU.
func (g *gate) lacksWorkers() bool {
	if g.all.n == 0 {
		return false
	}
	isParked := func(s *site) bool {
		return slices.ContainsFunc(s.parked, func(t *Ticket) bool { return !t.uploads || !g.uploadsWait(t, patience) })
	}
	return slices.ContainsFunc(g.contending, isParked) || g.wants(waitsAt(lightRung+1), waitsAt(rungs-1)) ||
		g.wantsCPU() && from(&g.load.computing, 0) < g.limits.slots || g.busy >= g.limits.workers ||
		g.limits.slots >= g.limits.workers
}

// refute lowers the assumed number of workers, because connections waited while at most n workers were in use.
func (g *gate) refute(at time.Duration, n int) {
	w := &g.workers
	w.pause = min(max(usedFor, 2*w.pause), againMost)
	w.again = at + w.pause
	if n = max(n, g.limits.leastSlots+1); n < w.n {
		w.seen, w.lowered = true, n
		g.setWorkers(n, "connections that wait to be accepted")
	}
}

// Found reports the number of workers in the backend's own configuration, and the source of that number. n is 0
// if the configuration doesn't set it. GateOptions.Workers takes precedence.
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

// configure sets the configured number of workers; 0 if none is configured.
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

// shape calculates the limits that depend on the number of workers and of CPUs.
func (g *gate) shape() {
	n := &g.limits
	n.workers = g.workers.n
	n.leastSlots = min(n.cpus, n.workers)
	kept := min((keptOf16*n.workers+15)/16, 2*n.cpus+1)
	n.longMost = max(1, n.workers-kept, min(n.cpus, n.workers-1))
	if !n.fixed {
		n.slots = max(n.leastSlots, min(n.slots, n.workers))
	}
}

// A backend has two resources: CPUs and workers. A request that waits for a database, a long poll that waits
// for news, and an event stream each hold a worker but use almost no CPU time. The CPUs are then idle and seem
// to have room for more such requests, until no worker is left. A page of a millisecond then waits for a
// minute.
//
// Requests that aren't short, whether they compute or wait, may therefore hold only some of the workers. The
// rest are kept for short requests, even if the CPUs are idle. One client and one network may each hold only a
// part of the workers for longer requests. If a client disconnects before the answer, the backend continues to
// work on the abandoned request, which is called an orphan. An orphan still counts as its client's request, so
// a client can't have many orphans.

const (
	// keptOf16 of 16 workers are kept for short requests.
	keptOf16 = 5
	// The limits on keys' workers don't apply while more workers are free than slackTimes times the kept
	// workers and the CPUs together.
	slackTimes = 2
	// An upload usually starts only if the running ones of its client take all CPUs for at most a person's patience.
	// lateUploads applies instead to one that has waited for MaxHold while CPUs and workers are free. People's pages
	// are slow for that long if the client makes all bodies end at once.
	lateUploads = 10 * time.Second
	// An upload of unknown cost counts as a quarter of that time on one CPU. On two CPUs, a client may have eight of
	// these, even after MaxHold. A browser has six connections.
	unknownUpload = 0.25
)

// Hold marks a running request that will keep its worker until it ends and computes little, such as an event
// stream or an upgraded connection.
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
	g.move(t, holding, rungs-1)
	g.dispatch(at)
}

// Orphan reports that the client of a running request has disconnected. The request still counts until the
// backend has finished it.
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

// isLow reports whether a running request belongs to the lower half of rung r. On the rung where it waited, a
// request of unknown cost doesn't, because it may cost anything.
func (t *Ticket) isLow(r rung) bool {
	return t.charged <= r.most()/2 && (t.sure || r != t.level.rung())
}

// move changes the phase, the rung or the half of the rung of a running request, or whether the request is
// tiny.
func (g *gate) move(t *Ticket, p phase, r rung) {
	if t.phase == p && t.rung == r && t.low == t.isLow(r) && t.tiny == t.isTiny() {
		return
	}
	was := t.phase
	g.countOut(t)
	t.uninvited = p == computing && (t.uninvited || was == holding)
	g.countIn(t, p, r)
}

// countIn counts a running request. A probe is counted on the first rung.
func (g *gate) countIn(t *Ticket, p phase, r rung) {
	if p == holding {
		r = max(r, lightRung+1)
	}
	t.phase, t.rung, t.low, t.tiny = p, r, t.isLow(r), t.isTiny()
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

// countOut stops counting a running request.
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

// recentUse is how many workers a group of requests has recently used at once, plus one if short ones of them
// waited.
type recentUse struct {
	now, before int
	since       time.Duration
}

func (u *recentUse) most() int { return max(u.now, u.before) }

// pass forgets old use: it starts a new period if the current one is over.
func (u *recentUse) pass(at time.Duration) {
	if at-u.since >= usedFor {
		u.before, u.now, u.since = u.now, 0, at
	}
}

// addBusy adds n to the requests at the backend.
func (g *gate) addBusy(t *Ticket, n int) {
	g.busy += n
	t.site.busy += n
	if t.uploads {
		t.client.address.uploads += n
	}
}

// countLong adds n to the counts of requests that aren't short, including those of the request's keys.
func (g *gate) countLong(t *Ticket, n int32) {
	if t.stranger {
		t.site.strangerLong += int(n)
		if t.rung > briefRung || !t.endsSoon() {
			t.site.strangerHeld += int(n)
		}
	} else {
		g.knownLong += int(n)
		g.knownUse.now = max(g.knownUse.now, g.knownLong)
	}
	brief := t.rung <= briefRung && t.sure && !t.uploads && !t.level.short()
	t.each(func(s *reservation) {
		if s.Bucket.Value.holds += n; brief {
			s.Bucket.Value.brief += n
		}
	})
}

// unorphan stops counting an orphan.
func (g *gate) unorphan(t *Ticket) {
	if !t.orphan {
		return
	}
	t.orphan = false
	g.orphans--
	t.each(func(s *reservation) { s.Bucket.Value.orphans-- })
	g.unpark()
}

// mostLong returns how many requests that aren't short may hold a worker if another one of rung r starts. If
// that one ends soon, they leave short requests only as many workers as these have recently used at once, at
// least one and at most the kept number. Otherwise, workers that no short request wants would stay idle while
// other requests wait. Longer requests always leave all kept workers, because short requests would wait too
// long for one of them to end.
func (g *gate) mostLong(r rung) int {
	if r > briefRung {
		return g.limits.longMost
	}
	return max(g.limits.longMost, g.limits.workers-max(1, g.shortUse.most()))
}

// hasWorker reports whether there is a worker for a request of rung r. Requests of up to 400 ms may take even the last
// worker, because they will soon free it, and with few workers a CPU would otherwise be idle. So may those of up to 1.6 s
// if they compute and there are no more workers than CPUs, or if they compute little and no short request arrived
// recently. While requests wait for a CPU, requests that compute little leave one worker per CPU to them; otherwise a
// CPU would be idle. If these workers were taken while no other request wanted them, requests that compute may use as
// many of the kept workers instead.
func (g *gate) hasWorker(r rung, computes bool) bool {
	n := &g.limits
	if r <= lightRung {
		return g.roomForShort()
	}
	most := g.mostLong(r)
	if g.busy >= n.workers || !computes && g.wantsCPU() && g.load.holding >= max(1, most-n.leastSlots) {
		return false
	}
	if r <= passRung || computes && r <= briefRung && n.workers <= n.cpus {
		return true
	}
	if computes && from(&g.load.computing, lightRung+1) < n.leastSlots {
		most = min(most+n.leastSlots, max(most, n.workers-keptForKnown))
	}
	if g.load.long() >= max(most, n.workers-g.shortUse.most()) {
		return false
	}
	brief := !computes && r <= briefRung
	return brief || from(&g.load.held, briefRung+1)+upTo(&g.load.computing, lightRung+1, briefRung) < most
}

// wants reports whether any request waits at one of these levels.
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

// wantsCPU reports whether a request waits that isn't short and will compute.
func (g *gate) wantsCPU() bool { return g.wants(level(lightRung)+1, fresh) }

// mayHold reports whether the keys of a request hold few enough workers for the request to start. probe says
// whether it would start as a probe.
func (g *gate) mayHold(t *Ticket, probe bool) bool {
	by, _ := g.heldBy(t, probe)
	return by == nothing
}

// Barrier is the reason why a request waits. When the reason disappears, the request starts, or another reason
// applies.
type Barrier uint8

// The barriers.
const (
	nothing       Barrier = iota
	Owes                  // one of its capped keys is in debt
	BehindOwn             // earlier requests of its own client and size go first
	NoRoom                // as many requests as may compute at once, as short or shorter, are computing
	RoomForOthers         // the remaining room on the ladder is for clients within their share
	NoWorker              // the remaining workers are kept for shorter requests
	KeyHolds              // one of its keys holds as many workers as it may
	StrangersHold         // strangers hold as many workers as they may
	Misjudged             // requests that arrived as short ones, but aren't short, hold the workers for short requests
	CostUnknown           // its cost is unknown, and such requests start one at a time, as probes
	LeavesCPU             // it is long, its client is over its share, and other clients use the CPUs
	Turn                  // other requests of its size go first
	SiteAhead             // its site has used more than its share, and must leave room for another site
)

// heldBy reports whether one of a request's keys, or all strangers together, hold too many workers for the
// request to start. It returns the barrier, or nothing, and the key's index among the reservations. While workers are
// free that short requests don't use, a key's requests that end soon don't count, because otherwise these workers,
// and with few workers even CPUs, would be idle while a single office or program waits. Short requests and probes
// hold a worker only briefly, so misjudgedBy decides for them.
func (g *gate) heldBy(t *Ticket, probe bool) (by Barrier, key int) {
	if t.uploads && g.uploadsWait(t, patience) {
		if t.whole() != nil {
			key = 1 // the address of the session
		}
		return KeyHolds, key
	}
	if g.hasSlack() {
		return nothing, 0
	}
	if t.level.short() || t.level == fresh && probe {
		return g.misjudgedBy(t)
	}
	if have, most := g.strangersHold(t); t.stranger && have >= most && !(t.level.computes() && g.mayCompute(t)) {
		return StrangersHold, 0
	}
	most := g.limits.longMost
	for i := range t.reservations[:t.n] {
		if have := g.counted(t, i); have > 0 && have >= int(t.reservations[i].Terms.Workers*float32(most)) {
			return KeyHolds, i
		}
	}
	return nothing, 0
}

// counted returns how many of the workers that the i-th key holds count towards its part.
func (g *gate) counted(t *Ticket, i int) int {
	have, brief := t.holds(i)
	if n, r := &g.limits, t.level.rung(); g.busy < g.mostLong(r) || r <= passRung && n.workers <= n.cpus {
		have -= brief
	}
	return have
}

// holds returns how many workers the i-th key holds, or 0 if its class has no limit. brief is how many of these
// workers it holds with requests that were expected to end soon and may still do so.
func (t *Ticket) holds(i int) (all, brief int) {
	if s := &t.reservations[i]; s.Bucket != nil && s.Terms.Workers > 0 {
		return int(s.Bucket.Value.holds), int(s.Bucket.Value.brief)
	}
	return 0, 0
}

// strangersHold returns how many workers the strangers of t's site hold, and how many they may. Requests that
// will end soon leave only as many workers as known clients have recently held at once, because these can get
// more within a second or two. Other requests leave half of the workers.
func (g *gate) strangersHold(t *Ticket) (have, most int) {
	half, r := max(g.limits.longMost/2, 1), t.level.rung()
	if r <= briefRung && t.endsSoon() {
		return t.site.strangerLong, max(half, g.mostLong(r)-g.knownUse.most())
	}
	return t.site.strangerHeld, half
}

// endsSoon reports whether a request on a short rung will probably end soon: its cost is known, or nothing suggests
// that it takes more than 400 ms. An upload ends when its client wants.
func (t *Ticket) endsSoon() bool { return !t.uploads && (t.sure || rungOf(t.running) <= passRung) }

// uploadsWait reports whether an upload waits until another one of its address ends. All bodies of an address may
// end at once. Their pages then compute although the ladder made no room for them, however many workers are free.
// An upload therefore waits if the address's running uploads would take all CPUs for longest, for each of the
// clients behind the address, assuming that they cost as much as this one, but at most longest each.
// Uploads of clients within their share, and those that are known to be short, don't wait. While the number of workers
// is unknown, no upload waits, because the backend may serve streams that stay open for hours and whose cost therefore
// stays unknown.
func (g *gate) uploadsWait(t *Ticket, longest time.Duration) bool {
	a, most := t.client.address, longest.Seconds()
	if !t.overShare || t.sure && t.guess <= light || !g.workers.areKnown() {
		return false
	}
	cost := unknownUpload * most
	if t.sure {
		cost = max(light, min(g.likelyCPU(t), most))
	}
	return float64(a.uploads)*cost >= a.clientsBehind*g.ranking.cpus*most
}

// startsLate reports whether an upload that waits for others of its address starts instead of being refused.
func (g *gate) startsLate(t *Ticket) bool {
	return t.uploads && g.hasSlack() && g.utilisation < idleBelow && g.uploadsWait(t, patience) && !g.uploadsWait(t, lateUploads)
}

// hasSlack reports whether the limits on keys' workers don't apply, because many workers would still be free
// after one more request (see slackTimes).
func (g *gate) hasSlack() bool {
	n := &g.limits
	return !g.workers.areKnown() || n.workers-g.busy-1 > slackTimes*(n.workers-n.longMost+n.cpus)
}

// mayCompute reports whether a stranger's request that would compute may start although strangers hold as many
// workers as they may. Its client must hold none, and requests that aren't longer must leave a CPU free. If its
// cost isn't known, the rule is stricter: requests of its size or shorter, except light ones, must leave half of
// the CPUs free, and strangers may not hold all workers for long requests. Such requests may start at all because
// the cost of a page that only strangers request would otherwise never be known.
func (g *gate) mayCompute(t *Ticket) bool {
	n, long := &g.limits, upTo(&g.load.computing, lightRung+1, t.level.rung())
	return t.own().Bucket.Value.holds == 0 && long < n.leastSlots && (t.sure || t.level != fresh && 2*long < n.leastSlots && t.site.strangerHeld < n.longMost)
}

// misjudged counts requests that arrived as short ones but aren't short.
type misjudged struct{ known, strange int }

// of returns the count to which a request belongs, by whether its client is known.
func (m *misjudged) of(t *Ticket) *int {
	if t.stranger {
		return &m.strange
	}
	return &m.known
}

// misjudgedBy returns the barrier, if any, that keeps a light request or a probe from the kept workers. The
// cause is either misjudged requests, of its own client or of all clients, or a key that holds more workers
// than it may, not counting requests that end soon.
func (g *gate) misjudgedBy(t *Ticket) (by Barrier, key int) {
	// If misjudged requests hold as many workers as are kept, short requests of some other clients also wait.
	// Strangers and known clients are counted separately, so neither group shuts the other out.
	used := *t.site.misjudged.of(t)
	own, _ := t.holds(0)
	if g.isStrained() && (t.overShare && t.client.misjudged > 0 || used >= max(1, g.limits.workers-g.limits.longMost) && (t.overShare || own > 0)) {
		return Misjudged, 0
	}
	for i := range t.reservations[:t.n] {
		if all, brief := t.holds(i); all > brief && all-brief > int(t.reservations[i].Terms.Workers*float32(g.limits.longMost))+g.limits.leastSlots {
			return KeyHolds, i
		}
	}
	return nothing, 0
}

// isStrained reports whether misjudged requests may be in the way of others: a request that isn't short computes,
// or only the kept workers are free. Otherwise, the misjudged ones only wait, on workers that no other wants.
func (g *gate) isStrained() bool {
	return from(&g.load.computing, lightRung+1) > 0 || g.load.long() >= g.limits.longMost
}

// park takes the head of a lane out of the competition until its keys hold fewer workers.
func (g *gate) park(t *Ticket) {
	t.heap.remove(t)
	t.site.parked.push(t)
}

// unpark lets parked requests compete again if their keys now hold few enough workers.
func (g *gate) unpark() {
	for _, s := range g.contending {
		stay := s.parked[:0] // collected in one pass, because a client can have many parked lanes
		for _, t := range s.parked {
			if g.mayHold(t, true) {
				g.put(t)
				continue
			}
			t.index = len(stay)
			stay = append(stay, t)
		}
		clear(s.parked[len(stay):])
		s.parked = stay
		heap.Init(&s.parked)
	}
}

// wanted reports whether a request waits for a CPU and may hold a worker. It parks each request it finds that
// may not hold one.
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
					break // it waits to become a probe
				}
				g.park(t)
			}
		}
	}
	return false
}
