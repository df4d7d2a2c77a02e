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
	Number   Number
	Began    time.Time
	Accepted time.Time     // since when the backend may have worked on it, as far as Look has seen; zero: since it began
	Estimate time.Duration // of the CPU time that it has used
	Work     *Work         // what Look found before; nil: nothing
	Due      bool          // it is to be read now, though it was a moment ago

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
)

// Tracker finds out what requests use. One goroutine calls Look; Listen runs beside it.
type Tracker struct {
	Numbers *Numbers
	finder  *Finder // nil: none is looked for
	claims  *claims
	ear     *Ear // nil: nobody tells
	data    *Database
	askers  *askers // nil: it is not to be seen who waits for it

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

type seat struct {
	Seat
	worker *worker
	used   time.Time
}

// How often things are done.
const (
	readEvery  = 100 * time.Millisecond
	manyEvery  = time.Second
	sweepEvery = 5 * time.Second
	keepsSeat  = 10 * time.Second
	keepsIdle  = 10 * time.Minute // a worker that serves nothing
)

// NewTracker makes one. All may be nil but tell, which Look calls with the reason when
// processes are not found, and with nil when they are: each time that this is news.
func NewTracker(f *Finder, e *Ear, d *Database, tell func(error)) *Tracker {
	t := &Tracker{
		Numbers: NewNumbers(), finder: f, claims: newClaims(), ear: e, data: d, tell: tell,
		workers: map[process.ID]*worker{}, seats: map[net.Conn]*seat{}, pause: leastPause,
	}
	if f != nil {
		t.askers = &askers{diag: f.diag, proc: f.proc}
	}
	return t
}

// Listens tells whether workers may say which request they serve.
func (t *Tracker) Listens() bool { return t.ear != nil }

// Run takes in what workers tell, until the context ends, and closes all.
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
}

// Look finds out what all requests use that have been at the backend for some ms, and those
// only.
func (t *Tracker) Look(now time.Time, all []Running) {
	t.sweep(now)
	at := make(map[*worker]int, len(all))
	for i := range all {
		r := &all[i]
		if r.Work == nil {
			t.find(now, r)
		}
		if r.Work != nil && r.Work.claim == nil {
			at[r.Work.worker]++
		}
	}
	counts := t.data != nil && now.Sub(t.counted) >= readEvery && len(t.data.pids(now)) > 0
	for i := range all {
		r := &all[i]
		if r.Work == nil {
			continue // nobody serves it, or it is not known who does
		}
		t.judge(now, r, at[r.Work.worker])
		r.Is = t.read(now, r, counts)
	}
	if counts {
		t.counted = now
		t.share(now, all)
	}
}

// leastUsed is what a database uses at least for which it is looked who waits for it.
const leastUsed = time.Millisecond

// share has those who waited pay for the database.
func (t *Tracker) share(now time.Time, all []Running) {
	used, ok := t.data.source(now)
	seen := ok && used >= leastUsed && t.askers.look(now, t.data.pids(now))
	var waited time.Duration
	waits := make([]time.Duration, len(all))
	for i := range all {
		if r := &all[i]; r.Is == Read && r.Work != nil {
			if seen {
				r.Work.worker.asks = t.askers.isOne(r.Work.worker.id.PID)
			}
			waits[i] = r.Work.waited(now, r.Work.worker.asks)
			waited += waits[i]
		}
	}
	price := t.data.bill(used, ok, waited)
	for i, d := range waits {
		if d > 0 && price > 0 {
			all[i].Reading.Database = all[i].Work.owes(time.Duration(float64(d) * price))
		}
	}
}

// waited is for how long the request has waited for a database since the last time, if it asks
// one.
func (w *Work) waited(now time.Time, asks bool) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	more := w.newlyBlockedLocked(now)
	if w.asks = asks; !asks {
		return 0
	}
	return more
}

// owes adds to what the request has to pay for the database, and returns all of it.
func (w *Work) owes(share time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reading.Database += share
	return w.reading.Database
}

// judge gives up what is seen to serve several requests at once.
func (t *Tracker) judge(now time.Time, r *Running, running int) {
	w := r.Work
	if w.claim != nil && !w.claim.serves() {
		w.void.Store(true)
	}
	if running > 1 || w.claim == nil && t.isMany(now, w.worker, r.Due) {
		w.worker.many = true
		w.void.Store(true)
	}
}

// isMany tells whether a process that was found has other connections meanwhile. It is looked
// at now and then, as that takes some system calls, and before it is to step down.
func (t *Tracker) isMany(now time.Time, w *worker, due bool) bool {
	pause := manyEvery
	if due {
		pause = readEvery
	}
	if t.finder == nil || now.Sub(w.counted) < pause {
		return w.many
	}
	w.counted = now
	return w.many || t.finder.Several(w.id.PID)
}

func (t *Tracker) read(now time.Time, r *Running, counts bool) State {
	w := r.Work
	if w.void.Load() {
		return Lost
	}
	if !counts && !r.Due && !w.read.IsZero() && now.Sub(w.read) < readEvery {
		return Same
	}
	var ok bool
	if r.Reading, ok = w.Read(now); !ok {
		return Lost
	}
	w.read = now
	return Read
}

// find finds who serves a request.
func (t *Tracker) find(now time.Time, r *Running) {
	if c := t.claims.of(r.Number); r.Number != 0 && c != nil {
		r.Work = t.begin(t.worker(now, c.id), r, c.base, c)
		return
	}
	if t.finder == nil || r.Conn == nil {
		return
	}
	s, err := t.seat(now, r.Conn)
	if errors.Is(err, ErrWaits) {
		r.Is, r.Accepted = Read, now // it has used nothing
		return
	}
	if s == nil || s.worker.many {
		return
	}
	u, err := s.worker.id.Usage()
	if err != nil {
		return
	}
	if u.Threads > 1 {
		s.worker.many = true
		return
	}
	since := r.Began
	if r.Accepted.After(since) {
		since = r.Accepted
	}
	r.Work = t.begin(s.worker, r, s.worker.before(u, now.Sub(since), min(r.Estimate, now.Sub(since))), nil)
}

func (t *Tracker) begin(w *worker, r *Running, base process.Usage, c *claim) *Work {
	return &Work{worker: w, base: base, claim: c, began: r.Began, database: t.data, asks: w.asks}
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

// seat returns where a connection ends; nil: that is not known.
func (t *Tracker) seat(now time.Time, c net.Conn) (*seat, error) {
	s := t.seats[c]
	if s != nil && t.finder.Holds(&s.Seat) {
		s.used, s.worker.used = now, now
		return s, nil
	}
	if now.Before(t.again) {
		return nil, errLater
	}
	found, err := t.finder.Find(now, c)
	if err != nil {
		if !errors.Is(err, errLater) && !errors.Is(err, ErrWaits) {
			t.again = now.Add(t.pause)
			t.pause = min(2*t.pause, mostPause)
			t.say(err)
		}
		return nil, err
	}
	t.again, t.pause = time.Time{}, leastPause
	t.say(nil)
	w, known := t.workers[found.ID], false
	if w == nil {
		w = t.worker(now, found.ID)
	} else {
		known, w.used = true, now
	}
	if !known {
		w.many, w.counted = t.finder.Many(&found), now
	}
	s = &seat{Seat: found, worker: w, used: now}
	t.seats[c] = s
	return s, nil
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
