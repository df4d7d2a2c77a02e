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

// allowance is CPU time that looking for processes may take: a part of the time that passes, and
// what is saved up of it. With thousands of connections that come and go it would else be most of
// what the proxy does.
type allowance struct {
	clock func() time.Duration // what this thread has used
	saved time.Duration        // negative: that has to be earned first
	last  time.Time
}

const (
	lookingPart = 64 // of the time of one CPU
	mostSaved   = 10 * time.Millisecond
)

func (a *allowance) earn(now time.Time) {
	a.saved = min(mostSaved, a.saved+now.Sub(a.last)/lookingPart)
	a.last = now
}

func (a *allowance) isSpent() bool { return a.saved <= 0 }

// pay takes away what was used since then.
func (a *allowance) pay(since time.Duration) { a.saved -= a.clock() - since }

// Running is a request that has been at the backend for some ms.
type Running struct {
	Conn     net.Conn // to the backend, comparable; nil: none
	Opening  bool     // it is being opened
	Number   Number
	Began    time.Time
	Accepted time.Time     // since when the backend may have worked on it, as far as Look has seen; zero: since it began
	Estimate time.Duration // of the CPU time that it has used
	Work     *Work         // what Look found before; nil: nothing
	Due      bool          // it is to be read now, though it was a moment ago
	StepAt   time.Duration // CPU time at which its process steps down; 0: it doesn't

	Reading cpuaccount.Reading
	Is      WorkState
}

// WorkState is what Look knows of a request.
type WorkState uint8

// The states.
const (
	WorkUnknown WorkState = iota // which process serves it
	WorkRead                     // there is a Reading
	WorkSame                     // nothing is newer than the last one
	WorkLost                     // it was known, and is not any more
	WorkGone                     // its process went on to other requests; this Reading is the last one
)

// Tracker finds out what requests use. One goroutine calls Look; Run runs next to it.
type Tracker struct {
	Numbers    *Numbers
	finder     *Finder // nil: none is looked for
	claims     *claims
	costSocket *CostSocket // nil: workers can't report
	data       *Database
	askers     *askers // nil: it is not to be seen who waits for it

	looking allowance
	opened  *opened
	workers map[process.ID]*worker
	fresh   []process.ID // workers that came since Fresh was asked
	seats   map[net.Conn]*seat
	swept   time.Time
	counted time.Time // the database

	tell    func(error) // is told why none is found, once, and nil when one is
	told    error
	toldAny bool
}

// How often things are done.
const (
	readEvery     = 100 * time.Millisecond
	manyEvery     = time.Second // at first
	sweepEvery    = 5 * time.Second
	mostManyPause = 8 * time.Second
	holdsFor      = time.Second // a connection is taken to end where it did
	keepsSeat     = 10 * time.Second
	keepsIdle     = 10 * time.Minute // a worker that serves nothing
)

// NewTracker makes one. All may be nil but tell, which Look calls with the reason when
// processes are not found, and with nil when they are: each time that this is news.
func NewTracker(f *Finder, e *CostSocket, d *Database, tell func(error)) *Tracker {
	t := &Tracker{
		Numbers: newNumbers(), finder: f, claims: newClaims(), costSocket: e, data: d, tell: tell,
		workers: map[process.ID]*worker{}, seats: map[net.Conn]*seat{}, looking: allowance{clock: threadTime},
	}
	t.opened = t.claims.opened
	if f != nil {
		t.askers = &askers{sockets: f.sockets, root: f.root}
	}
	return t
}

// Listens reports whether workers may say which request they serve.
func (t *Tracker) Listens() bool { return t.costSocket != nil }

// Run takes in what workers tell, until the context ends, and closes the socket that they tell by.
func (t *Tracker) Run(ctx context.Context) {
	if t.costSocket != nil {
		t.costSocket.run(ctx, t.claims, t.Numbers)
	}
	<-ctx.Done()
}

// Close releases its files. Look must not be called after it.
func (t *Tracker) Close() {
	if t.finder != nil {
		t.finder.Close()
	}
	if t.data != nil {
		t.data.opened.close()
	}
	t.opened.close()
}

// Look finds out what all requests use that have been at the backend for some ms, and those
// only.
func (t *Tracker) Look(now time.Time, all []Running) {
	runtime.LockOSThread() // whose CPU time is counted
	defer runtime.UnlockOSThread()
	t.looking.earn(now)
	t.sweep(now)
	for i := range all {
		if all[i].Work == nil {
			t.find(now, &all[i])
		}
	}
	at := t.crowd(now, all)
	counts := t.data != nil && now.Sub(t.counted) >= readEvery && len(t.data.pids(now)) > 0
	for i := range all {
		r := &all[i]
		if r.Work == nil {
			continue // no process serves it, or it is unknown which one
		}
		t.judge(now, r, at[r.Work.worker])
		if r.Is = t.read(now, r, counts); r.Is == WorkRead && r.StepAt > 0 && r.Reading.CPU >= r.StepAt {
			t.judgeAgain(now, r)
		}
	}
	if counts {
		t.counted = now
		t.share(now, all)
	}
}

// judge gives up what is seen to serve several requests at once.
func (t *Tracker) judge(now time.Time, r *Running, running int) {
	w := r.Work
	if w.claim != nil && !w.claim.serves() {
		w.void.Store(true)
	}
	if w.gone.Load() {
		return
	}
	if running > 1 || w.claim == nil && (w.worker.many || !t.looking.isSpent() && t.isMany(now, w.worker, w.worker.pause)) {
		w.worker.many = true
		w.void.Store(true)
	}
}

// judgeAgain looks once more before a process is to step down.
func (t *Tracker) judgeAgain(now time.Time, r *Running) {
	switch w := r.Work; {
	case w.claim != nil:
	case !t.finder.holds(&w.seat.Seat): // it is done
		r.Is = WorkSame
	case t.isMany(now, w.worker, readEvery):
		w.worker.many = true
		w.void.Store(true)
		r.Is = WorkLost
	}
}

// isMany reports whether a process that was found has got other connections since. It checks now
// and then, and less often each time, because a check takes some system calls.
func (t *Tracker) isMany(now time.Time, w *worker, pause time.Duration) bool {
	if t.finder == nil || now.Sub(w.counted) < pause {
		return w.many
	}
	w.counted, w.pause = now, min(mostManyPause, max(manyEvery, 2*w.pause))
	defer t.looking.pay(t.looking.clock())
	return w.many || t.finder.several(now, w.id.PID)
}

func (t *Tracker) read(now time.Time, r *Running, counts bool) WorkState {
	w := r.Work
	switch {
	case w.void.Load():
		return WorkLost
	case w.gone.Load():
		r.Reading = w.lastReading()
		return WorkGone
	case now.Equal(w.read): // it was found now
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

// find finds who serves a request.
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
		r.Is, r.Accepted = WorkRead, now // it has used nothing
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
		return // for now: a page that has a thread for a moment, to ask for a name, is not to spoil the worker for others
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
		w = &worker{id: id, opened: t.opened, asks: t.data != nil}
		t.workers[id] = w
		t.fresh = append(t.fresh, id)
	}
	w.used = now
	return w
}

// Fresh are the processes that Look has found and that were not known when this was asked last.
func (t *Tracker) Fresh() []process.ID {
	fresh := t.fresh
	t.fresh = nil
	return fresh
}

// say reports what is new.
func (t *Tracker) say(err error) {
	if t.toldAny && errors.Is(t.told, err) {
		return
	}
	t.told, t.toldAny = err, true
	t.tell(err)
}

// sweep forgets what is over.
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

// seat is where a connection to the backend ends.
type seat struct {
	Seat
	worker *worker   // nil: it is not yet known that it is the process that had the number as it was found
	held   time.Time // when it was looked at last that the process has the connection
	used   time.Time
}

// seat returns where a connection ends; nil: that is not known.
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

// sits reports whether that process has the connection, and takes it in as its worker.
func (t *Tracker) sits(now time.Time, s *seat, id process.ID) bool {
	if w := s.worker; w != nil {
		w.used = now
		return w.id == id
	}
	if !t.finder.holds(&s.Seat) {
		return false // the number is another process's by now
	}
	isNew := t.workers[id] == nil
	s.worker = t.worker(now, id)
	if isNew {
		s.worker.many, s.worker.counted, s.worker.pause = t.finder.many(now, &s.Seat), now, manyEvery
	}
	return true
}

// A process may be done with a request whose answer is still on its way: the kernel keeps some MB of it for a
// client that reads slowly, if no spool takes it. The process then serves others. Its use for them isn't this
// request's, nor is its priority, and it does not serve both at once.

// crowd tells how many requests each process serves at once that was found, and notes which have gone on.
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

// isHere reports whether a process was found that serves the request, as far as was seen.
func (r *Running) isHere() bool {
	return r.Work != nil && r.Work.claim == nil && !r.Work.gone.Load()
}

// goesOn checks whether the process went on to other requests, and notes that.
func (t *Tracker) goesOn(now time.Time, r *Running) bool {
	w := r.Work
	if !t.hasLeft(r) {
		return false
	}
	if last, ok := w.readAt(now); ok && w.claim == nil {
		w.worker.end(w.at(last)) // the next request pays for its use from here on
	}
	w.gone.Store(true)
	return true
}

// hasLeft reports whether the process has said that it serves another one, or has closed the connection. One
// that another process or descriptor has by now is not closed.
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

// hasGone reports whether the process went on to another request, and serves one at a time.
func (c *claim) hasGone() bool {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.gone && !c.another
}

// lastReading is what was read last.
func (w *Work) lastReading() cpuaccount.Reading {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reading
}
