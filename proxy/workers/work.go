package workers

import (
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
	// counted is when it was looked at last whether it has other connections.
	counted time.Time

	mu   sync.Mutex // guards the following
	last process.Usage
	seen bool // last is of when it was seen last at the end of a request, or later
}

// end notes what the process has used at the end of a request.
func (w *worker) end(u process.Usage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.seen = u, true
}

// before is what the process had used before a request that began so long ago, by what it
// has used now: what it had used when it was seen last, if all that came since fits into
// this request's time. Else it served others meanwhile, and what the request used so far is
// an estimate.
func (w *worker) before(now process.Usage, took, estimate time.Duration) process.Usage {
	w.mu.Lock()
	defer w.mu.Unlock()
	if more := now.CPU - w.last.CPU; w.seen && more <= took {
		queued := now.Queued - min(now.Queued-w.last.Queued, took-max(more, 0))
		return process.Usage{CPU: w.last.CPU, Queued: queued}
	}
	return process.Usage{CPU: now.CPU - min(now.CPU, max(estimate, 0), took), Queued: now.Queued}
}

// Work is what a process does for one request. Its methods may be called concurrently.
type Work struct {
	worker *worker
	base   process.Usage
	claim  *claim // nil: it was found
	void   atomic.Bool
	read   time.Time // that the last Reading is of, for the Tracker

	mu       sync.Mutex // guards the following
	reading  cpuaccount.Reading
	began    time.Time
	database *Database     // nil: none
	asks     bool          // it waits for the database when it waits
	blocked  time.Duration // for how long it waited, up to the last Reading, and has paid for
}

// ID is the process.
func (w *Work) ID() process.ID { return w.worker.id }

// Told tells whether the process said itself that it serves the request.
func (w *Work) Told() bool { return w.claim != nil }

// Read reads what the process has used for the request; not ok: it is not known any more.
func (w *Work) Read(now time.Time) (r cpuaccount.Reading, ok bool) {
	u, ok := w.usage()
	if !ok {
		w.void.Store(true)
		return r, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reading.CPU, w.reading.Queued = max(w.reading.CPU, u.CPU-w.base.CPU), max(0, u.Queued-w.base.Queued)
	return w.reading, true
}

// End is the last Read.
func (w *Work) End(now time.Time) (r cpuaccount.Reading, ok bool) {
	if r, ok = w.Read(now); !ok {
		return r, false
	}
	w.worker.end(process.Usage{CPU: w.base.CPU + r.CPU, Queued: w.base.Queued + r.Queued})
	w.mu.Lock()
	defer w.mu.Unlock()
	if waited := w.newlyBlockedLocked(now); w.asks {
		w.reading.Database += w.database.pay(waited)
	}
	return w.reading, true
}

// newlyBlockedLocked is for how long it waited, for whatever it was, since this was asked last.
func (w *Work) newlyBlockedLocked(now time.Time) time.Duration {
	all := max(0, now.Sub(w.began)-w.reading.CPU-w.reading.Queued)
	more := max(0, all-w.blocked)
	w.blocked = max(w.blocked, all)
	return more
}

func (w *Work) usage() (u process.Usage, ok bool) {
	if w.void.Load() {
		return u, false
	}
	var err error
	if w.claim != nil {
		u, err = w.claim.used()
	} else {
		u, err = w.worker.id.Usage()
	}
	return u, err == nil
}
