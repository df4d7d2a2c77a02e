package limiter

import (
	"math"
	"time"
)

// How many workers the backend has, nobody tells. The gate begins with what is
// configured, found on this machine, or usual, and learns from what it sees:
//
//   - A request whose kind is known, and that was answered in its usual time while
//     so many were at the backend from its start to its answer, proves as many.
//     For that, now and then light ones are let in beyond those that are known, up to an
//     eighth more. An event-driven backend (Node, Go) proves more each time.
//   - Some light ones that take much longer than usual at the same time, although the
//     CPUs are not full, wait there for a worker: all others have one. That is a
//     guess, and counts only where nobody sees the queue before the workers.
//   - Connections that the backend has not accepted yet wait for a worker, too;
//     so do those that php-fpm has not accepted from the web server before it.
//   - Where the backend is on this machine, and somebody waits for a worker, as many
//     connections are opened for a moment as would need more: those that it accepts
//     have one.
//
// What was refuted is tried again only after a while, each time a longer one.
const (
	// provesFrom and provesUntil bound the usual time of requests that prove
	// anything, in seconds: what takes less may be a file that another part of the
	// backend serves, and what takes more is no sign soon enough.
	provesFrom, provesUntil = 0.002, 3.0
	// A request is prompt that took at most so many times its usual time, and so
	// many seconds more; late, if it still runs after that.
	promptTimes, promptMore = 1.5, 0.05
	lateTimes, lateMore     = 3.0, 0.25
	// manyLate at the same time refute; while more are tried, one does.
	manyLate = 3
	// foundFor is how long no more than a number that was found are tried. After that it
	// is doubted: it may be that of another site's php-fpm.
	foundFor = time.Minute
	// accepted is what a number is known by that connections proved.
	accepted = "connections that were accepted"
	// queueSeen is how long what Backlog told is news.
	queueSeen = time.Second
	// againAfter is when more are tried again first, as a web server may start more
	// processes when it needs them; and againMost at last.
	againAfter, againMost = 5 * time.Second, 10 * time.Minute
	// mostTried bounds how many connections are opened to see whether they are
	// accepted, and tryAtLeast is how many more workers these are to prove.
	mostTried, tryAtLeast = 256, 4
)

// workers is what the gate knows of how many there are.
type workers struct {
	n       int           // now
	most    int           // as configured; 0: any number
	found   int           // as Found told last
	trusted time.Duration // until then there are no more than were found
	// blind: connections are accepted that wait for a worker behind who accepts them, a
	// web server before php-fpm. They prove nothing.
	blind   bool
	source  string
	refuted bool
	again   time.Duration // when more are tried again, if refuted
	pause   time.Duration // that was waited for that
	late    int           // requests at the backend that are
	waited  int           // connections that were not accepted yet, as Backlog told last
	looked  time.Duration // when that was; 0: never
}

// trial is what a running request shows of the workers.
type trial struct {
	usual float64 // seconds that the like of it takes alone; 0: it shows nothing, or has
	with  int     // requests at the backend at its start, itself included
	ended uint64  // how many of all had ended then
	late  bool
}

// usualWorkers is how many a backend has of which nothing is known.
func usualWorkers(cpus float64) int { return max(16, int(math.Ceil(8*cpus))) }

// Workers is how many the backend is known to have, and by what.
func (l *Limiter) Workers() (n int, by string) {
	g := l.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.workers.n, g.workers.source
}

// Backlog tells how many connections to the backend, from this machine, wait to
// be accepted, and how many workers there are at least: php-fpm starts them only when
// connections wait, one after the other. 0: nobody knows.
func (l *Limiter) Backlog(now time.Time, queued, atLeast int) {
	g := l.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.workers.waited
	g.workers.waited, g.workers.looked = queued, l.since(now)
	// One look may see what is just about to be accepted, as do all while the CPUs
	// are full.
	if queued = min(queued, before); queued <= 0 || g.busy <= queued || g.utilisation > fullAbove {
		return
	}
	g.workers.blind = g.workers.blind || g.workers.found > 0 && g.workers.source == accepted
	g.refute(l.since(now), max(g.busy-queued, atLeast), "its accept queue")
}

// Wants is how many connections to the backend, opened for a moment beside those
// of the requests there, would show whether it has more workers; 0 if nobody waits
// for one, or if that was tried lately.
func (l *Limiter) Wants(now time.Time) int {
	g := l.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.workers.blind || !g.lacksWorkers() || g.mayTry(l.since(now)) == 0 {
		return 0
	}
	n := g.workers.n
	return max(0, min(mostTried, n+max(tryAtLeast, n/4)-g.busy))
}

// lacksWorkers tells whether somebody waits for a worker, and not for a CPU.
func (g *gate) lacksWorkers() bool {
	if g.queued == 0 {
		return false
	}
	holds := false
	for _, s := range g.contending {
		holds = holds || len(s.parked) > 0
		for r := lightRung + 1; r < rungs; r++ {
			holds = holds || !s.queues[waitsAt(r)].empty()
		}
	}
	return holds || g.wantsCPU() && from(&g.load.computing, 0) < g.limits.n || g.busy >= g.limits.workers
}

// Tried tells how many connections were opened, as Wants asked for, and how many
// of them the backend has not accepted.
func (l *Limiter) Tried(now time.Time, opened, waiting int) {
	l.gate.tried(l.since(now), opened, waiting)
}

func (g *gate) tried(at time.Duration, opened, waiting int) {
	g.mu.Lock()
	defer g.unlock()
	n, w := g.busy+opened-waiting, &g.workers
	if waiting > 0 {
		g.refute(at, n, "connections that were not accepted")
	}
	if at < w.trusted {
		n = min(n, w.found)
	}
	if n > w.n && !w.blind {
		g.setWorkers(n, accepted)
	}
	g.dispatch(at)
}

// Found tells how many workers the backend seems to have, and what says so. It
// may be wrong. A number that is configured counts more.
func (l *Limiter) Found(now time.Time, n int, source string) {
	l.gate.discover(l.since(now), n, source)
}

func (g *gate) discover(at time.Duration, n int, source string) {
	g.mu.Lock()
	defer g.unlock()
	w := &g.workers
	if n <= 0 || w.most > 0 || w.found == n {
		return
	}
	w.found, w.trusted = n, at+foundFor
	g.setWorkers(n, source)
	g.dispatch(at)
}

// Answering tells that the answer to a running request has begun.
func (l *Limiter) Answering(now time.Time, t *Ticket) {
	if t.client == nil {
		return
	}
	l.gate.answering(l.since(now), t)
}

func (g *gate) answering(at time.Duration, t *Ticket) {
	g.mu.Lock()
	defer g.unlock()
	if !t.phase.running() {
		return
	}
	was := g.workers.n
	if g.prove(at, t); g.workers.n == was {
		return
	}
	g.dispatch(at)
}

// try notes what a request is to show that starts now.
func (g *gate) try(t *Ticket) {
	t.trial = trial{with: g.busy, ended: g.ended}
	// What waits takes as long as it likes, or as its client does.
	if usual := t.guess + t.likelyIdle; t.sure && t.level.computes() && usual >= provesFrom && usual <= provesUntil {
		t.trial.usual = usual
	}
}

// expected is how long a request takes among those that compute now, in seconds.
func (g *gate) expected(x trial) float64 {
	computing := float64(from(&g.load.computing, 0) + g.load.probing)
	return x.usual * max(1, computing/g.ranking.cpus)
}

// prove looks how long a request took that is being answered, or ends without that.
func (g *gate) prove(at time.Duration, t *Ticket) {
	x := t.trial
	t.trial = trial{}
	if x.late {
		g.workers.late--
	}
	if x.usual == 0 || t.orphan { // what ends as its client leaves was not answered
		return
	}
	n := min(x.with, g.busy)
	if x.usual < lateMore {
		// It may have had the worker of one that ended just then.
		n = x.with - int(g.ended-x.ended) //nolint:gosec // few end while one runs
	}
	if took := (at - t.began).Seconds(); n > g.workers.n && took <= promptTimes*g.expected(x)+promptMore {
		g.setWorkers(n, "prompt answers")
	}
}

// watch sees whether a request that runs is late.
func (g *gate) watch(at time.Duration, t *Ticket) {
	if !t.level.short() || t.trial.usual == 0 || t.trial.late || (at-t.began).Seconds() <= lateTimes*g.expected(t.trial)+lateMore {
		return
	}
	t.trial.late = true
	g.workers.late++
	enough := manyLate
	if g.trying > 0 {
		enough = 1
	}
	seen := g.workers.looked > 0 && at-g.workers.looked < queueSeen
	if g.workers.late >= enough && !seen && g.utilisation <= fullAbove {
		g.refute(at, g.busy-g.workers.late, "late answers")
	}
}

// refute learns that there are no more than n workers.
func (g *gate) refute(at time.Duration, n int, source string) {
	w := &g.workers
	w.pause = min(max(againAfter, 2*w.pause), againMost)
	w.refuted, w.again = true, at+w.pause
	if n = max(n, g.limits.least+1); n < w.n {
		g.setWorkers(n, source)
	}
}

// configure takes in how many are configured, or else usual.
func (w *workers) configure(configured, usual int) {
	switch {
	case configured > 0 && w.most != configured:
		*w = workers{n: configured, most: configured, source: "configuration", late: w.late}
	case configured <= 0 && (w.n == 0 || w.most > 0):
		*w = workers{n: usual, source: "what is usual; nothing was learnt yet", late: w.late}
	}
}

// mayTry is how many more requests may be at the backend than it is known to
// have workers.
func (g *gate) mayTry(at time.Duration) int {
	w := &g.workers
	if w.refuted && at < w.again || w.most > 0 && w.n >= w.most {
		return 0
	}
	more := max(1, w.n/8)
	if at < w.trusted {
		more = min(more, max(0, w.found-w.n))
	}
	return more
}

func (g *gate) setWorkers(n int, source string) {
	w := &g.workers
	if w.most > 0 {
		n = min(n, w.most)
	}
	if n > w.n {
		w.pause = 0
	}
	w.n, w.source = n, source
	g.shape()
	g.unpark()
}

// shape makes the limits that the number of workers and of CPUs gives.
func (g *gate) shape() {
	n := &g.limits
	n.workers = g.workers.n
	n.least = min(n.cpus, n.workers)
	kept := min((keptOf16*n.workers+15)/16, 2*n.cpus+1)
	if g.without(ruleKept) {
		kept = 0
	}
	n.longest = max(1, n.workers-kept, min(n.cpus, n.workers-1))
	if !n.fixed {
		n.n = max(n.least, min(n.n, n.longest))
	}
}
