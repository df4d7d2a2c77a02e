package limiter

import (
	"time"
)

// A request waits for a worker only while workers are short, and that is something that was
// seen:
//
//   - As many are in use as are configured here, or as the backend's own configuration gives
//     it, which was found on this machine.
//   - Connections wait until the backend accepts them. A server that starts its workers only
//     when they are asked for has some wait until it has started them: so they tell that there
//     are no more only once they have waited for a while in which its processes did not become
//     more.
//
// Without any of these the backend may have any number. While its accept queue can be seen, and
// nothing waits there, more and more are let go for as long as somebody would have to wait.
const (
	// forksFor is how long connections wait until they tell that no worker is started for
	// them: Apache starts some once a second.
	forksFor = 2500 * time.Millisecond
	// blindFor is the same while it is not known how many processes there are.
	blindFor = 8 * time.Second
	// againAfter is when more than were seen are tried again first, as their number may have
	// changed; and againMost at last.
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

// areKnown tells whether their number is; else there may be any.
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

// press lets more go where somebody waits for a worker, and no connection waits.
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

// lacksWorkers tells whether somebody waits for a worker, and not for a CPU.
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
	if n = max(n, g.limits.least+1); n < w.n {
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
	n.least = min(n.cpus, n.workers)
	kept := min((keptOf16*n.workers+15)/16, 2*n.cpus+1)
	if g.without(ruleKept) {
		kept = 0
	}
	n.longest = max(1, n.workers-kept, min(n.cpus, n.workers-1))
	if !n.fixed {
		n.slots = max(n.least, min(n.slots, n.workers))
	}
}
