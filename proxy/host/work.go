package host

import (
	"maps"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"tempomat/cpuaccount"
	"tempomat/cpuaccount/process"
)

// worker is a process that, as far as is known, serves one request at a time.
type worker struct {
	id   process.ID
	many bool // whether the process serves several requests at once
	asks bool // whether, at the last look, the process had or may have had a connection to a database
	used time.Time
	// asksBy is the process's descriptor of a connection to a database, if it has one.
	asksBy int
	// opened keeps the files of processes open.
	opened *opened

	mu   sync.Mutex // guards the fields below
	last process.Usage
	seen bool // whether last was read at the end of a request
}

// usage returns the process's CPU use so far.
func (w *worker) usage(now time.Time) (process.Usage, error) {
	id, u, err := w.opened.look(now, w.id.PID)
	if err == nil && id != w.id {
		err = os.ErrProcessDone
	}
	return u, err
}

// end notes what the process had used by the end of a request.
func (w *worker) end(u process.Usage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.seen = u, true
}

// before estimates how much CPU time the process had used before a request. now is its current total, and took
// is how long ago the request began. If the process has used no more than took since its last request from this
// proxy, all of that time counts as this request's. Otherwise the process has served other requests in between,
// and only the estimate counts as this request's.
func (w *worker) before(now process.Usage, took, estimate time.Duration) process.Usage {
	w.mu.Lock()
	defer w.mu.Unlock()
	if more := max(0, now.CPU-w.last.CPU); w.seen && more <= took {
		queued := now.Queued - min(now.Queued-w.last.Queued, took-more)
		return process.Usage{CPU: now.CPU - more, Queued: queued}
	}
	return process.Usage{CPU: now.CPU - min(now.CPU, max(estimate, 0), took), Queued: now.Queued}
}

// Work is a process's work on one request. Its methods may be called concurrently.
type Work struct {
	worker *worker
	base   process.Usage
	claim  *claim // report from the process; nil: a search found the process
	void   atomic.Bool
	gone   atomic.Bool // whether the process serves other requests now

	seat *seat     // other end of conn, where the process was found
	conn net.Conn  // connection that carries the request
	read time.Time // time of the last Reading; only the Tracker uses it

	mu       sync.Mutex // guards the fields below
	reading  cpuaccount.Reading
	began    time.Time
	database *Database
	asks     bool          // whether the request's waits count as waits for the database
	blocked  time.Duration // how long the request had waited by the last Reading; it has paid for these waits
}

// ID returns the process.
func (w *Work) ID() process.ID { return w.worker.id }

// readAt reads the process's CPU use for the request. ok is false if it is no longer known.
func (w *Work) readAt(now time.Time) (r cpuaccount.Reading, ok bool) {
	u, ok := w.usage(now)
	if !ok {
		w.void.Store(true)
		return r, false
	}
	return w.setUsage(u), true
}

// setUsage takes the process's current CPU use and returns the request's part of it.
func (w *Work) setUsage(u process.Usage) cpuaccount.Reading {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reading.CPU, w.reading.Queued = max(w.reading.CPU, u.CPU-w.base.CPU), max(0, u.Queued-w.base.Queued)
	return w.reading
}

// End takes the last reading of the CPU time, while the request's client waits for the end of the answer.
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

// at returns the process's total CPU use at the time of a Reading.
func (w *Work) at(r cpuaccount.Reading) process.Usage {
	return process.Usage{CPU: w.base.CPU + r.CPU, Queued: w.base.Queued + r.Queued}
}

// newlyBlockedLocked returns how long the request has waited for anything since the last call.
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
	// mostOpened is the number of processes whose files are kept open, two files for each process. The limit
	// applies to workers and to databases separately. The files of further processes are opened for each reading.
	mostOpened = 256
	// ofDescriptors sets a second limit on this number: the limit on descriptors divided by ofDescriptors. With
	// 1024 descriptors, the files of workers and databases take up to 32. Connections can't use these.
	ofDescriptors = 128
	// keepsOpen is how long the files of a process stay open after the last reading.
	keepsOpen = 30 * time.Second
)

// opened keeps the files of processes open, because opening them takes longer than reading them. Each
// measured request reads the files of its process when it ends, so reading holds only a lock of that process.
// The methods may be called concurrently.
type opened struct {
	mu    sync.Mutex // guards the fields below
	most  int        // how many processes may have open files here; 0: close was called
	byPID map[int]*held
}

// held is a process whose files are open.
type held struct {
	mu     sync.Mutex // guards the fields below
	handle *process.Handle
	closed bool
	used   time.Time
}

func newOpened() *opened {
	limit, _ := Limit() // if it is unknown, no files are kept open
	return &opened{most: int(min(mostOpened, limit/ofDescriptors)), byPID: make(map[int]*held)}
}

// look returns the process with the number pid, and its CPU use.
func (o *opened) look(now time.Time, pid int) (id process.ID, u process.Usage, err error) {
	o.mu.Lock()
	h := o.byPID[pid]
	o.mu.Unlock()
	if h != nil {
		if id, u, err = h.usage(now); err == nil {
			return id, u, nil
		}
		o.drop(pid, h) // the process has ended, and another one may have its number
	}
	handle, err := process.Open(pid)
	if err != nil {
		return id, u, err
	}
	if u, err = handle.Usage(); err != nil || !o.keep(pid, &held{handle: handle, used: now}) {
		handle.Close()
	}
	return handle.ID(), u, err
}

// keep stores a process whose files are open. It returns false if there is no room, or if another goroutine was
// faster.
func (o *opened) keep(pid int, h *held) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byPID[pid] != nil || len(o.byPID) >= o.most {
		return false
	}
	o.byPID[pid] = h
	return true
}

func (o *opened) drop(pid int, h *held) {
	o.mu.Lock()
	if o.byPID[pid] == h {
		delete(o.byPID, pid)
	}
	o.mu.Unlock()
	h.close()
}

// sweep closes the files of processes whose last reading was long ago.
func (o *opened) sweep(now time.Time) {
	o.mu.Lock()
	all := maps.Clone(o.byPID)
	o.mu.Unlock()
	for pid, h := range all {
		if h.restedFor(now) > keepsOpen {
			o.drop(pid, h)
		}
	}
}

// close closes the files of all processes. Files that are opened later aren't kept open.
func (o *opened) close() {
	o.mu.Lock()
	all := o.byPID
	o.most, o.byPID = 0, nil
	o.mu.Unlock()
	for _, h := range all {
		h.close()
	}
}

func (h *held) usage(now time.Time) (id process.ID, u process.Usage, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return id, u, os.ErrClosed
	}
	if u, err = h.handle.Usage(); err == nil {
		h.used = now
	}
	return h.handle.ID(), u, err
}

func (h *held) restedFor(now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return now.Sub(h.used)
}

func (h *held) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.closed = true
		h.handle.Close()
	}
}
