package workers

import (
	"sync"
	"syscall"
	"time"

	"tempomat/cpuaccount/process"
)

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

func newOpened() *opened {
	var limit syscall.Rlimit
	_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)                        // unknown: none
	return &opened{most: mostOf(uint64(limit.Cur)), byPID: make(map[int]*held)} //nolint:unconvert // it has a sign on some systems
}

// mostOf is how many are kept open where the process may have so many descriptors.
func mostOf(descriptors uint64) int { return int(min(mostOpened, descriptors/ofDescriptors)) }

// reading is how an open process is read: (*process.Handle).Usage or Glance.
type reading func(*process.Handle) (process.Usage, error)

// look returns the process that has that number now, and what it has used. It is read so if it
// is open, else in full.
func (o *opened) look(now time.Time, pid int, read reading) (h *process.Handle, u process.Usage, err error) {
	if h = o.at(now, pid); h != nil {
		if u, err = read(h); err == nil {
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
