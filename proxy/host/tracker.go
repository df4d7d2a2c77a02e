package host

import (
	"context"
	"errors"
	"net"
	"runtime"
	"time"

	"tempomat/cpuaccount"
	"tempomat/cpuaccount/process"
)

// allowance limits the CPU time of searches for processes. It grows by a fraction (1/lookingPart) of the time
// that passes, up to a limit. Without it, these searches would take most of the proxy's CPU time when
// thousands of connections are opened and closed.
type allowance struct {
	clock func() time.Duration // CPU time of this thread
	saved time.Duration        // negative: a debt
	last  time.Time
}

const (
	lookingPart = 64 // searches may use a 64th of one CPU
	mostSaved   = 10 * time.Millisecond
)

func (a *allowance) earn(now time.Time) {
	a.saved = min(mostSaved, a.saved+now.Sub(a.last)/lookingPart)
	a.last = now
}

func (a *allowance) isSpent() bool { return a.saved <= 0 }

// pay subtracts the CPU time that this thread has used since the clock showed the time since.
func (a *allowance) pay(since time.Duration) { a.saved -= a.clock() - since }

// Running is a request that has been at the backend for some milliseconds.
type Running struct {
	Conn     net.Conn // connection to the backend; nil: none
	Opening  bool     // the connection is being opened
	Number   Number
	Began    time.Time
	Accepted time.Time     // earliest time at which, according to Look, the backend can have begun; zero: Began
	Estimate time.Duration // estimated CPU time so far
	Work     *Work         // result of the last Look; nil: none
	Due      bool          // the CPU time must be read now, even if the last reading is recent

	Reading cpuaccount.Reading
	Is      WorkState
}

// WorkState is what Look has found out about a request.
type WorkState uint8

// States of a request's measurement.
const (
	WorkUnknown WorkState = iota // no process is known that serves the request
	WorkRead                     // there is a new Reading
	WorkSame                     // nothing has changed since the last Reading
	WorkLost                     // the process was known, but no longer is
	WorkGone                     // the process serves other requests now, so this Reading is the last one
)

// Tracker finds out how much CPU time requests use. One goroutine calls Look; Run runs in another.
type Tracker struct {
	Numbers    *Numbers
	finder     *Finder // finds the process at a connection's end; nil: the Tracker can't search
	claims     *claims
	costSocket *CostSocket // socket for workers' reports; nil: workers can't report
	data       *Database
	askers     *askers // finds the processes that use a database; nil: these are unknown

	looking allowance
	opened  *opened
	workers map[process.ID]*worker
	fresh   []process.ID // workers found since the last call of Fresh
	seats   map[net.Conn]*seat
	swept   time.Time
	counted time.Time // time of the last reading of the databases' CPU time

	tell func(error) // called when searches begin to fail, with the reason, and with nil when they succeed again
	told error
}

// Intervals of regular work, and how long results are kept.
const (
	readEvery  = 100 * time.Millisecond
	sweepEvery = 5 * time.Second
	holdsFor   = time.Second // how long a process counts as having a connection before this is checked again
	keepsSeat  = 10 * time.Second
	keepsIdle  = 10 * time.Minute // how long a worker without requests is remembered
)

// NewTracker makes a Tracker. Both the Finder and the CostSocket may be nil. Look calls tell with an
// error when processes can't be found, and with nil when they are found again.
func NewTracker(f *Finder, e *CostSocket, tell func(error)) *Tracker {
	t := &Tracker{
		Numbers: newNumbers(), finder: f, claims: newClaims(), costSocket: e, data: newDatabase(), tell: tell,
		told:    errLater, // find never reports this error, so the first result always differs from it
		workers: map[process.ID]*worker{}, seats: map[net.Conn]*seat{}, looking: allowance{clock: threadTime},
	}
	t.opened = t.claims.opened
	if f != nil {
		t.askers = &askers{sockets: f.sockets, root: f.root}
	}
	return t
}

// Listens reports whether workers can report which request they serve.
func (t *Tracker) Listens() bool { return t.costSocket != nil }

// Run receives the workers' reports until the context ends, and closes their socket.
func (t *Tracker) Run(ctx context.Context) {
	if t.costSocket != nil {
		t.costSocket.run(ctx, t.claims, t.Numbers)
	}
	<-ctx.Done()
}

// Close closes the Tracker's files. Look must not be called afterwards.
func (t *Tracker) Close() {
	if t.finder != nil {
		t.finder.Close()
	}
	t.data.opened.close()
	t.opened.close()
}

// Look finds out how much CPU time the given requests use. They must include all requests that have been at the
// backend for some milliseconds.
func (t *Tracker) Look(now time.Time, all []Running) {
	runtime.LockOSThread() // the allowance counts this thread's CPU time
	defer runtime.UnlockOSThread()
	t.looking.earn(now)
	t.sweep(now)
	for i := range all {
		if all[i].Work == nil {
			t.find(now, &all[i])
		}
	}
	at := t.crowd(now, all)
	counts := now.Sub(t.counted) >= readEvery && len(t.data.pids(now)) > 0
	for i := range all {
		r := &all[i]
		if r.Work == nil {
			continue // no process serves the request, or the process is unknown
		}
		r.Work.judge(at[r.Work.worker])
		r.Is = t.read(now, r, counts)
	}
	if counts {
		t.counted = now
		t.share(now, all)
	}
}

// judge stops the measurement of a process that serves several requests at once. running is how many of this
// proxy's requests the process serves.
func (w *Work) judge(running int) {
	if w.claim != nil && !w.claim.serves() {
		w.void.Store(true)
	}
	if !w.gone.Load() && (running > 1 || w.claim == nil && w.worker.many) {
		w.worker.many = true
		w.void.Store(true)
	}
}

func (t *Tracker) read(now time.Time, r *Running, counts bool) WorkState {
	w := r.Work
	switch {
	case w.void.Load():
		return WorkLost
	case w.gone.Load():
		r.Reading = w.lastReading()
		return WorkGone
	case now.Equal(w.read): // the process was found in this Look
		r.Reading = w.reading
		return WorkRead
	case !counts && now.Sub(w.read) < readEvery && !r.Due:
		return WorkSame
	case t.goesOn(now, r):
		r.Reading = w.lastReading()
		return WorkGone
	}
	var ok bool
	if r.Reading, ok = w.readAt(now); !ok {
		return WorkLost
	}
	w.read = now
	return WorkRead
}

// find finds the process that serves a request.
func (t *Tracker) find(now time.Time, r *Running) {
	if c := t.claims.of(r.Number); r.Number != 0 && c != nil {
		r.Work = t.begin(t.worker(now, c.id), r, c.base, c)
		return
	}
	if t.finder == nil || r.Conn == nil && !r.Opening {
		return
	}
	s, err := t.seat(now, r)
	if errors.Is(err, errWaits) {
		r.Is, r.Accepted = WorkRead, now // no process has accepted the request, so it has used no CPU time
		r.Reading = cpuaccount.Reading{Waits: true}
		return
	}
	if errors.Is(err, errSpent) {
		r.Is = WorkSame
	}
	if s == nil || s.worker != nil && s.worker.many {
		return
	}
	id, u, err := t.opened.look(now, s.PID)
	if err != nil || !t.sits(now, s, id) || s.worker.many {
		return
	}
	if u.Threads > 1 {
		return // only for now: if a page starts a thread for a moment, for example to resolve a name, the worker's later requests are still measured
	}
	since := r.Began
	if r.Accepted.After(since) {
		since = r.Accepted
	}
	base := s.worker.before(u, now.Sub(since), min(r.Estimate, now.Sub(since)))
	r.Work = t.begin(s.worker, r, base, nil)
	r.Work.seat, r.Work.conn, r.Work.read = s, r.Conn, now
	r.Work.setUsage(u)
}

func (t *Tracker) begin(w *worker, r *Running, base process.Usage, c *claim) *Work {
	return &Work{
		worker: w, base: base, claim: c, began: r.Began, database: t.data, asks: w.asks,
		reading: cpuaccount.Reading{Unserved: max(0, r.Accepted.Sub(r.Began))},
	}
}

func (t *Tracker) worker(now time.Time, id process.ID) *worker {
	w := t.workers[id]
	if w == nil {
		w = &worker{id: id, opened: t.opened, asks: true}
		t.workers[id] = w
		t.fresh = append(t.fresh, id)
	}
	w.used = now
	return w
}

// Fresh returns the processes that Look has found since the last call of Fresh.
func (t *Tracker) Fresh() []process.ID {
	fresh := t.fresh
	t.fresh = nil
	return fresh
}

// say calls tell if the result has changed.
func (t *Tracker) say(err error) {
	if !errors.Is(t.told, err) {
		t.told = err
		t.tell(err)
	}
}

// sweep forgets workers, connections and files that are no longer used.
func (t *Tracker) sweep(now time.Time) {
	if now.Sub(t.swept) < sweepEvery {
		return
	}
	t.swept = now
	t.opened.sweep(now)
	for c, s := range t.seats {
		if now.Sub(s.used) > keepsSeat {
			delete(t.seats, c)
		}
	}
	for id, w := range t.workers {
		if now.Sub(w.used) > keepsIdle {
			delete(t.workers, id)
		}
	}
}

// seat is the other end of a connection to the backend.
type seat struct {
	Seat
	worker *worker   // process at the connection's end; nil: unknown, because the process may have ended
	held   time.Time // time of the last check that the process has the connection
	used   time.Time
}

// seat returns the other end of a request's connection; nil: unknown.
func (t *Tracker) seat(now time.Time, r *Running) (*seat, error) {
	if r.Opening {
		return nil, errWaits
	}
	c := r.Conn
	s := t.seats[c]
	if s != nil && (now.Sub(s.held) < holdsFor || t.finder.holds(&s.Seat)) {
		if now.Sub(s.held) >= holdsFor {
			s.held = now
		}
		s.used = now
		return s, nil
	}
	if t.looking.isSpent() {
		return nil, errSpent
	}
	defer t.looking.pay(t.looking.clock())
	found, err := t.finder.Find(now, c)
	if err != nil {
		if !errors.Is(err, errLater) && !errors.Is(err, errWaits) {
			t.say(err)
		}
		return nil, err
	}
	t.say(nil)
	s = &seat{Seat: found, held: now, used: now}
	t.seats[c] = s
	return s, nil
}

// sits reports whether the process still has the connection. If so, the process becomes the seat's worker.
func (t *Tracker) sits(now time.Time, s *seat, id process.ID) bool {
	if w := s.worker; w != nil {
		w.used = now
		return w.id == id
	}
	if !t.finder.holds(&s.Seat) {
		return false // another process has the number now
	}
	isNew := t.workers[id] == nil
	if s.worker = t.worker(now, id); isNew {
		s.worker.many = servesMany(t.finder.root, s.PID, s.fd)
	}
	return true
}

// A process may have finished a request although the answer isn't complete here: if the client reads slowly and
// no spool takes the answer, several MB of it wait in the kernel. The process then serves other requests. Their
// CPU time must not be charged to this request, the process must not keep the priority of this request, and the
// process must not count as one that serves both at once.

// crowd counts how many requests each process serves at once, and notes which processes have moved on to
// other requests.
func (t *Tracker) crowd(now time.Time, all []Running) map[*worker]int {
	at := make(map[*worker]int, len(all))
	for i := range all {
		switch r := &all[i]; {
		case r.isHere():
			at[r.Work.worker]++
		case r.Work != nil && !r.Work.gone.Load():
			t.goesOn(now, r)
		}
	}
	for i := range all {
		if r := &all[i]; r.isHere() && at[r.Work.worker] > 1 && t.goesOn(now, r) {
			at[r.Work.worker]--
		}
	}
	return at
}

// isHere reports whether the request's process was found and still serves it.
func (r *Running) isHere() bool {
	return r.Work != nil && r.Work.claim == nil && !r.Work.gone.Load()
}

// goesOn checks whether the process has begun other requests, and records the result.
func (t *Tracker) goesOn(now time.Time, r *Running) bool {
	w := r.Work
	if !t.hasLeft(r) {
		return false
	}
	if last, ok := w.readAt(now); ok && w.claim == nil {
		w.worker.end(w.at(last)) // CPU time from now on belongs to the next request
	}
	w.gone.Store(true)
	return true
}

// hasLeft reports whether the process has reported another request, or has closed the connection. If another
// process or descriptor now has the connection, the connection isn't closed.
func (t *Tracker) hasLeft(r *Running) bool {
	w := r.Work
	switch {
	case w.claim != nil:
		return w.claim.hasGone()
	case w.seat == nil || w.conn == nil || t.finder.holds(&w.seat.Seat):
		return false
	}
	inode, _ := t.finder.peer(w.conn)
	return inode != w.seat.inode
}

// hasGone reports whether the process has begun another request and serves one at a time.
func (c *claim) hasGone() bool {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.gone && !c.another
}

// lastReading returns the last Reading.
func (w *Work) lastReading() cpuaccount.Reading {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reading
}
