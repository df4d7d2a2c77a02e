package workers

import (
	"context"
	"errors"
	"net"
	"time"

	"tempomat/cpuaccount"
	"tempomat/cpuaccount/process"
)

// Running is a request that has been at the backend for some ms.
type Running struct {
	Conn     net.Conn // to the backend, comparable; nil: none
	Opening  bool     // it is being opened
	Number   Number
	Began    time.Time
	Accepted time.Time     // since when the backend may have worked on it, as far as Look has seen; zero: since it began
	Estimate time.Duration // of the CPU time that it has used
	// Estimated is the CPU time that is charged by estimates to what came on Conn before.
	Estimated time.Duration
	Work      *Work         // what Look found before; nil: nothing
	Due       bool          // it is to be read now, though it was a moment ago
	StepAt    time.Duration // of CPU time, with which its process is to step down; 0: it is not to

	Reading cpuaccount.Reading
	Is      State
}

// State is what Look knows of a request.
type State uint8

// The states.
const (
	Unknown State = iota // which process serves it
	Read                 // there is a Reading
	Same                 // nothing is newer than the last one
	Lost                 // it was known, and is not any more
	Gone                 // its process has gone on to others; the Reading is the last one
)

// Tracker finds out what requests use. One goroutine calls Look; Run runs beside it.
type Tracker struct {
	Numbers *Numbers
	finder  *Finder // nil: none is looked for
	claims  *claims
	ear     *Ear // nil: nobody tells
	births  *process.Births
	data    *Database
	askers  *askers // nil: it is not to be seen who waits for it

	opened  *opened
	workers map[process.ID]*worker
	seats   map[net.Conn]*seat
	swept   time.Time
	again   time.Time // when one may be looked for that was not found
	pause   time.Duration
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
func NewTracker(f *Finder, e *Ear, d *Database, tell func(error)) *Tracker {
	t := &Tracker{
		Numbers: newNumbers(), finder: f, claims: newClaims(), ear: e, data: d, tell: tell,
		workers: map[process.ID]*worker{}, seats: map[net.Conn]*seat{}, pause: leastPause,
	}
	t.opened, t.births = t.claims.opened, process.OpenBirths()
	if f != nil {
		t.askers = &askers{sockets: f.sockets, proc: f.proc}
	}
	return t
}

// Listens tells whether workers may say which request they serve.
func (t *Tracker) Listens() bool { return t.ear != nil }

// Run takes in what workers tell, until the context ends, and closes the socket that they tell by.
func (t *Tracker) Run(ctx context.Context) {
	if t.ear != nil {
		t.ear.run(ctx, t.claims, t.Numbers)
	}
	<-ctx.Done()
}

// Close closes what it looks by. Nobody calls Look any more.
func (t *Tracker) Close() {
	if t.finder != nil {
		t.finder.Close()
	}
	if t.data != nil {
		t.data.close()
	}
	t.opened.close()
	t.births.Close()
}

// Look finds out what all requests use that have been at the backend for some ms, and those
// only.
func (t *Tracker) Look(now time.Time, all []Running) {
	t.sweep(now)
	for i := range all {
		if all[i].Work == nil {
			t.find(now, &all[i])
		}
	}
	at := t.crowd(all)
	counts := t.data != nil && now.Sub(t.counted) >= readEvery && len(t.data.pids(now)) > 0
	for i := range all {
		r := &all[i]
		if r.Work == nil {
			continue // nobody serves it, or it is not known who does
		}
		t.judge(now, r, at[r.Work.worker])
		if r.Is = t.read(now, r, counts); r.Is == Read && r.StepAt > 0 && r.Reading.CPU >= r.StepAt {
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
	if running > 1 || w.claim == nil && t.isMany(now, w.worker, w.worker.pause) {
		w.worker.many = true
		w.void.Store(true)
	}
}

// judgeAgain looks once more before a process is to step down.
func (t *Tracker) judgeAgain(now time.Time, r *Running) {
	switch w := r.Work; {
	case w.claim != nil:
	case !t.finder.holds(&w.seat.Seat): // it is done
		r.Is = Same
	case t.isMany(now, w.worker, readEvery):
		w.worker.many = true
		w.void.Store(true)
		r.Is = Lost
	}
}

// isMany tells whether a process that was found has other connections meanwhile. It is looked
// at now and then, and less often each time, as that takes some system calls.
func (t *Tracker) isMany(now time.Time, w *worker, pause time.Duration) bool {
	if t.finder == nil || now.Sub(w.counted) < pause {
		return w.many
	}
	w.counted, w.pause = now, min(mostManyPause, max(manyEvery, 2*w.pause))
	return w.many || t.finder.several(now, w.id.PID)
}

func (t *Tracker) read(now time.Time, r *Running, counts bool) State {
	w := r.Work
	switch {
	case w.void.Load():
		return Lost
	case w.gone.Load():
		r.Reading = w.lastReading()
		return Gone
	case now.Equal(w.read): // it was found now
		r.Reading = w.reading
		return Read
	case !counts && now.Sub(w.read) < readEvery && !(r.Due && w.mayHaveUsed(r.StepAt)):
		return Same
	case t.goesOn(r):
		r.Reading = w.lastReading()
		return Gone
	}
	var ok bool
	if r.Reading, ok = w.Read(); !ok {
		return Lost
	}
	w.read = now
	return Read
}

// find finds who serves a request.
func (t *Tracker) find(now time.Time, r *Running) {
	if c := t.claims.of(r.Number); r.Number != 0 && c != nil {
		w := t.worker(now, c.id)
		w.open.Store(t.opened.of(now, c.id))
		r.Work = t.begin(w, r, c.base, c)
		return
	}
	if t.finder == nil || r.Conn == nil && !r.Opening {
		return
	}
	s, err := t.seat(now, r)
	if errors.Is(err, errWaits) {
		r.Is, r.Accepted = Read, now // it has used nothing
		r.Reading = cpuaccount.Reading{Waits: true}
		return
	}
	if s == nil || s.worker != nil && s.worker.many {
		return
	}
	h, u, err := t.opened.look(now, s.PID, t.readingOf(s))
	if err != nil || !t.sits(now, s, h) || s.worker.many {
		return
	}
	if u.Threads > 1 {
		return // for now: a page that has a thread for a moment, to ask for a name, is not to spoil the worker for others
	}
	since := r.Began
	if r.Accepted.After(since) {
		since = r.Accepted
	}
	s.worker.pay(s.newlyEstimated(r.Estimated))
	base, newest := s.worker.before(u, now.Sub(since), min(r.Estimate, now.Sub(since)))
	r.Work = t.begin(s.worker, r, base, nil)
	r.Work.seat, r.Work.conn, r.Work.read, r.Work.newest = s, r.Conn, now, newest
	r.Work.take(u)
}

func (t *Tracker) begin(w *worker, r *Running, base process.Usage, c *claim) *Work {
	return &Work{
		worker: w, base: base, births: t.births, claim: c, began: r.Began, database: t.data, asks: w.asks,
		reading: cpuaccount.Reading{Unserved: max(0, r.Accepted.Sub(r.Began))},
	}
}

func (t *Tracker) worker(now time.Time, id process.ID) *worker {
	w := t.workers[id]
	if w == nil {
		w = &worker{id: id, asks: t.data != nil}
		t.workers[id] = w
	}
	w.used = now
	return w
}

// say tells what is news.
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
