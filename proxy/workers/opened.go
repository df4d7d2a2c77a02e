package workers

import (
	"sync"
	"time"

	"tempomat/cpuaccount/process"
)

const (
	// mostOpened processes are kept open, with two files each. Of more, the files are opened
	// each time.
	mostOpened = 256
	// keepsOpen is for how long a process is that serves nothing.
	keepsOpen = 30 * time.Second
)

// opened keeps the files open of processes that serve requests, as it takes longer to open
// them than to read them. Its methods may be called concurrently.
type opened struct {
	most int

	mu    sync.Mutex // guards the following
	byPID map[int]*held
}

type held struct {
	*process.Handle
	used time.Time
}

func newOpened() *opened { return &opened{most: mostOpened, byPID: make(map[int]*held)} }

// look returns the process that has that number now, and what it has used.
func (o *opened) look(now time.Time, pid int) (h *process.Handle, u process.Usage, err error) {
	if h = o.at(now, pid); h != nil {
		if u, err = h.Usage(); err == nil {
			return h, u, nil
		}
	}
	if h, err = process.Open(pid); err != nil {
		return nil, u, err
	}
	if u, err = h.Usage(); err != nil {
		h.Close()
		return nil, u, err
	}
	o.keep(now, h)
	return h, u, nil
}

// of is a process's, if it is open; nil: it is not.
func (o *opened) of(now time.Time, id process.ID) *process.Handle {
	if h := o.at(now, id.PID); h != nil && h.ID() == id {
		return h
	}
	return nil
}

// at is what is open under a process's number, which may be another one's by now; nil: nothing.
func (o *opened) at(now time.Time, pid int) *process.Handle {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := o.byPID[pid]
	if k == nil {
		return nil
	}
	k.used = now
	return k.Handle
}

// keep keeps it open in place of what had its number, or closes it if there is no room.
func (o *opened) keep(now time.Time, h *process.Handle) {
	o.mu.Lock()
	defer o.mu.Unlock()
	pid := h.ID().PID
	if old := o.byPID[pid]; old != nil {
		old.Close()
	} else if len(o.byPID) >= o.most {
		h.Close() // it can be read by its ID
		return
	}
	o.byPID[pid] = &held{Handle: h, used: now}
}

// sweep closes what was not used for long.
func (o *opened) sweep(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for pid, k := range o.byPID {
		if now.Sub(k.used) > keepsOpen {
			k.Close()
			delete(o.byPID, pid)
		}
	}
}

// close closes all.
func (o *opened) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, k := range o.byPID {
		k.Close()
	}
	clear(o.byPID)
}
