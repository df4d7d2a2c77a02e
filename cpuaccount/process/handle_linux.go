package process

import (
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Handle is a process whose files of /proc are kept open, so that it can be read often. The
// files are of that process, and never of one that has its number later: once it is gone they
// cannot be read any more. Its methods may be called concurrently.
type Handle struct {
	id ID

	mu   sync.RWMutex // guards the following: what is closed is not read, as its number may be another file's
	stat int          // negative: closed
	wait int          // schedstat; negative: the kernel has none, or it is closed
}

// Open opens two files of the process that has that number now. The error wraps
// fs.ErrNotExist if there is none.
func Open(pid int) (*Handle, error) {
	f, err := openProc(pid, "stat")
	if err != nil {
		return nil, err
	}
	h := &Handle{stat: f, wait: -1}
	s, err := h.read(pid)
	if err != nil {
		h.Close()
		return nil, err
	}
	h.id = ID{PID: pid, Start: s.start}
	if f, err = openProc(pid, "schedstat"); err == nil {
		h.wait = f
	}
	if _, err := h.read(pid); err != nil { // or the second file may be of another process
		h.Close()
		return nil, err
	}
	return h, nil
}

// ID is the process.
func (h *Handle) ID() ID { return h.id }

// Usage returns what the process has used since its start. It takes some 2 µs. The error
// wraps fs.ErrNotExist if the process is gone, os.ErrClosed after Close.
func (h *Handle) Usage() (u Usage, err error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.stat < 0 {
		return u, fmt.Errorf("process %d: %w", h.id.PID, os.ErrClosed)
	}
	var text [128]byte
	if h.wait >= 0 {
		if n, err := peek(h.wait, text[:]); err == nil {
			u.Queued = parseQueued(text[:n])
		}
	}
	if u.Own, err = onCPU(h.id.PID); err != nil {
		return Usage{}, err
	}
	s, err := h.read(h.id.PID) // the last one: so the number was this process's all the time
	if err != nil {
		return Usage{}, err
	}
	u.CPU, u.Threads = u.Own+s.children, s.threads
	return u, nil
}

func (h *Handle) read(pid int) (s stat, err error) {
	var line [512]byte // names have 64 characters at most, and numbers 20
	n, err := peek(h.stat, line[:])
	if err != nil || n == 0 {
		return s, fmt.Errorf("process %d: %w", pid, os.ErrNotExist)
	}
	if s, err = parseStat(line[:n]); err != nil {
		return s, fmt.Errorf("process %d: %w", pid, err)
	}
	return s, nil
}

// Close closes the files. It may be called again.
func (h *Handle) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range [...]*int{&h.stat, &h.wait} {
		if *f >= 0 {
			_ = unix.Close(*f) // it was only read
			*f = -1
		}
	}
}

func openProc(pid int, name string) (int, error) {
	if pid <= 0 {
		return -1, fmt.Errorf("process %d: %w", pid, os.ErrNotExist)
	}
	f, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("process %d: %w", pid, err)
	}
	return f, nil
}
