package process

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Handle keeps a process's files in /proc open, for frequent reading. The files always belong to that process:
// after it has ended, they can't be read, even if another process gets its number. A Handle must not be used
// concurrently.
type Handle struct {
	id   ID
	stat int
	wait int // schedstat; negative: the kernel has none
}

// Open opens the files of the process that has this number now. The error wraps fs.ErrNotExist if there is
// none.
func Open(pid int) (*Handle, error) {
	f, err := openProc(pid, "stat")
	if err != nil {
		return nil, err
	}
	h := &Handle{id: ID{PID: pid}, stat: f, wait: -1}
	s, err := h.read()
	if err == nil {
		h.id.Start = s.Start
		if f, err := openProc(pid, "schedstat"); err == nil {
			h.wait = f
		}
		_, err = h.read() // checks that both files belong to the same process
	}
	if err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// ID returns the process's ID.
func (h *Handle) ID() ID { return h.id }

// Usage returns the CPU time that the process has used since its start. The call takes about 2 µs. The error wraps
// fs.ErrNotExist if the process has ended.
func (h *Handle) Usage() (u Usage, err error) {
	var text [128]byte
	if h.wait >= 0 {
		if n, err := peek(h.wait, text[:]); err == nil {
			u.Queued, _ = ParseQueued(text[:n])
		}
	}
	own, err := onCPU(h.id.PID)
	if err != nil {
		return Usage{}, fmt.Errorf("process %d: %w", h.id.PID, err)
	}
	s, err := h.read() // comes last, to check that the number still belongs to this process
	if err != nil {
		return Usage{}, err
	}
	u.CPU, u.Threads = own+s.Children, s.Threads
	return u, nil
}

func (h *Handle) read() (s Stat, err error) {
	var line [512]byte // names have at most 64 characters, and numbers 20
	n, err := peek(h.stat, line[:])
	if err != nil || n == 0 {
		return s, fmt.Errorf("process %d: %w", h.id.PID, os.ErrNotExist)
	}
	if _, err = s.parse(line[:n]); err != nil {
		return s, fmt.Errorf("process %d: %w", h.id.PID, err)
	}
	return s, nil
}

// Close closes the files. The Handle must not be used after that.
func (h *Handle) Close() {
	_ = unix.Close(h.stat) // errors don't matter, because the files were only read
	if h.wait >= 0 {
		_ = unix.Close(h.wait)
	}
}

func openProc(pid int, name string) (int, error) {
	f, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("process %d: %w", pid, err)
	}
	return f, nil
}
