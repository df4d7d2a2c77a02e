package process

import (
	"bytes"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Births tells whether processes have begun. Its methods may be called concurrently, and of a
// nil one.
type Births struct {
	mu   sync.RWMutex // guards the following: what is closed is not read, as its number may be another file's
	file int          // negative: closed
}

// OpenBirths opens what the kernel tells it by; nil: it does not.
func OpenBirths() *Births {
	f, err := unix.Open("/proc/sys/kernel/ns_last_pid", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return &Births{file: f}
}

// Last is the number of the process, or thread, that began last of all that this one could
// see; 0: it is not known. While it stays the same none has begun.
func (b *Births) Last() int {
	if b == nil {
		return 0
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.file < 0 {
		return 0
	}
	var text [24]byte
	n, err := peek(b.file, text[:])
	if err != nil {
		return 0
	}
	last, err := strconv.Atoi(string(bytes.TrimSpace(text[:n])))
	if err != nil {
		return 0
	}
	return last
}

// Close closes it. It may be called again.
func (b *Births) Close() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.file >= 0 {
		_ = unix.Close(b.file) // it was only read
		b.file = -1
	}
}
