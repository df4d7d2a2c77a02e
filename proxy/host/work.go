package host

import (
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"tempomat/cpuaccount"
	"tempomat/cpuaccount/process"
)

// worker is a process that serves requests, one at a time as far as is known.
type worker struct {
	id   process.ID
	many bool // it serves several at once
	asks bool // it waited for a database, when that was looked at last, or that never was
	used time.Time
	// asksBy is the descriptor of its connection with a database, if it has one.
	asksBy int
	// opened has its files.
	opened *opened
	// counted is when it was looked at last whether it has other connections.
	counted time.Time
	pause   time.Duration // until it is again

	mu   sync.Mutex // guards the following
	last process.Usage
	seen bool // last is what it had used at the end of a request
}

// usage is what the process has used.
func (w *worker) usage(now time.Time) (process.Usage, error) {
	id, u, err := w.opened.look(now, w.id.PID)
	if err == nil && id != w.id {
		err = os.ErrProcessDone
	}
	return u, err
}

// end notes what the process has used at the end of a request.
func (w *worker) end(u process.Usage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.seen = u, true
}

// before is what the process had used before a request that began so long ago, by what it
// has used now: what it had used when it was seen last, if all that came since fits into
// this request's time. Else it served others in the meantime, and what the request used so far is
// an estimate.
func (w *worker) before(now process.Usage, took, estimate time.Duration) process.Usage {
	w.mu.Lock()
	defer w.mu.Unlock()
	if more := max(0, now.CPU-w.last.CPU); w.seen && more <= took {
		queued := now.Queued - min(now.Queued-w.last.Queued, took-more)
		return process.Usage{CPU: now.CPU - more, Queued: queued}
	}
	return process.Usage{CPU: now.CPU - min(now.CPU, max(estimate, 0), took), Queued: now.Queued}
}

// Work is what a process does for one request. Its methods may be called concurrently.
type Work struct {
	worker *worker
	base   process.Usage
	claim  *claim // nil: it was found
	void   atomic.Bool
	gone   atomic.Bool // the process went on to other requests

	seat *seat     // where it was found
	conn net.Conn  // that ends there
	read time.Time // that the last Reading is of, for the Tracker

	mu       sync.Mutex // guards the following
	reading  cpuaccount.Reading
	began    time.Time
	database *Database     // nil: none
	asks     bool          // it waits for the database when it waits
	blocked  time.Duration // for how long it waited, up to the last Reading, and has paid for
}

// ID is the process.
func (w *Work) ID() process.ID { return w.worker.id }

// readAt reads what the process has used for the request; not ok: it is not known any more.
func (w *Work) readAt(now time.Time) (r cpuaccount.Reading, ok bool) {
	u, ok := w.usage(now)
	if !ok {
		w.void.Store(true)
		return r, false
	}
	return w.setUsage(u), true
}

// setUsage takes in what the process has used.
func (w *Work) setUsage(u process.Usage) cpuaccount.Reading {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reading.CPU, w.reading.Queued = max(w.reading.CPU, u.CPU-w.base.CPU), max(0, u.Queued-w.base.Queued)
	return w.reading
}

// End reads it for the last time. It is on a request's path.
func (w *Work) End(now time.Time) (r cpuaccount.Reading, ok bool) {
	if w.gone.Load() {
		return w.lastReading(), !w.void.Load()
	}
	if r, ok = w.readAt(now); !ok {
		return r, false
	}
	w.worker.end(w.at(r))
	w.mu.Lock()
	defer w.mu.Unlock()
	if waited := w.newlyBlockedLocked(now); w.asks {
		w.reading.Database += w.database.pay(waited)
	}
	return w.reading, true
}

// at is what the process had used at a Reading.
func (w *Work) at(r cpuaccount.Reading) process.Usage {
	return process.Usage{CPU: w.base.CPU + r.CPU, Queued: w.base.Queued + r.Queued}
}

// newlyBlockedLocked is for how long it waited, for whatever it was, since this was asked last.
func (w *Work) newlyBlockedLocked(now time.Time) time.Duration {
	all := max(0, now.Sub(w.began)-w.reading.Unserved-w.reading.CPU-w.reading.Queued)
	more := max(0, all-w.blocked)
	w.blocked = max(w.blocked, all)
	return more
}

func (w *Work) usage(now time.Time) (u process.Usage, ok bool) {
	if w.void.Load() {
		return u, false
	}
	read := func() (process.Usage, error) { return w.worker.usage(now) }
	var err error
	if w.claim != nil {
		u, err = w.claim.used(read)
	} else {
		u, err = read()
	}
	return u, err == nil
}

const (
	// mostOpened processes are kept open, with two files each: so many workers, and so many of a
	// database. Of more, the files are opened each time.
	mostOpened = 256
	// ofDescriptors is one of how many descriptors: where the process may have 1024, these
	// take 32 of those that are not for connections.
	ofDescriptors = 128
	// keepsOpen is for how long a process is that serves nothing.
	keepsOpen = 30 * time.Second
)

// opened keeps the files of processes that serve requests open, because opening them takes
// longer than reading them. Its methods may be called concurrently.
type opened struct {
	mu    sync.Mutex // guards the following
	most  int        // 0 once closed
	byPID map[int]*held
}

type held struct {
	*process.Handle
	used time.Time
}

func newOpened() *opened {
	limit, _ := Limit() // unknown: none is kept
	return &opened{most: int(min(mostOpened, limit/ofDescriptors)), byPID: make(map[int]*held)}
}

// look returns the process that has that number now, and what it has used.
func (o *opened) look(now time.Time, pid int) (id process.ID, u process.Usage, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if h := o.byPID[pid]; h != nil {
		if u, err = h.Usage(); err == nil {
			h.used = now
			return h.ID(), u, nil
		}
		h.Close() // it has ended; another one may have its number
		delete(o.byPID, pid)
	}
	h, err := process.Open(pid)
	if err != nil {
		return id, u, err
	}
	if u, err = h.Usage(); err != nil || len(o.byPID) >= o.most {
		h.Close()
		return h.ID(), u, err
	}
	o.byPID[pid] = &held{h, now}
	return h.ID(), u, nil
}

// sweep closes what was not used for long.
func (o *opened) sweep(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for pid, h := range o.byPID {
		if now.Sub(h.used) > keepsOpen {
			h.Close()
			delete(o.byPID, pid)
		}
	}
}

// close closes all. A request that still runs may ask later; nothing is kept for it.
func (o *opened) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.most = 0
	for _, h := range o.byPID {
		h.Close()
	}
	clear(o.byPID)
}
