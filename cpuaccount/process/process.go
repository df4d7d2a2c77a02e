// Package process names a process of this machine for good, and tells what it has used of
// the CPUs.
//
// # What is counted
//
// The kernel's clock of a process counts ns on a CPU, of all its threads, those that have
// ended included. What its children used, and theirs, is added when it has waited for them,
// in steps of 10 ms. While a thread is on a CPU its last few ms may be missing (a tick of the
// kernel); when it sleeps, none are. No right is needed for either.
package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ID is a process. A number that is used again is another process: it has another start.
type ID struct {
	PID   int    // as this process's PID namespace has it
	Start uint64 // in clock ticks after the machine's start
}

// Usage is what a process has used since its start.
type Usage struct {
	CPU     time.Duration // of its threads, and of the children that it has waited for
	Queued  time.Duration // that its first thread was ready to run and had no CPU; 0 where the kernel does not count it
	Threads int           // that it has now
}

// Read returns the process that has that number now. The error wraps fs.ErrNotExist if
// there is none.
func Read(pid int) (ID, error) {
	s, err := statOf(pid)
	return ID{PID: s.PID, Start: s.Start}, err
}

// Alive reports whether the process still runs. One that has ended but was not waited for
// does not.
func (id ID) Alive() bool {
	s, err := statOf(id.PID)
	return err == nil && s.Start == id.Start && s.State != 'Z' && s.State != 'X'
}

func statOf(pid int) (Stat, error) {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, unix.ESRCH) || err == nil && len(line) == 0 { // it has ended in the meantime
		err = os.ErrNotExist
	}
	if err != nil {
		return Stat{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return ParseStat(line)
}

// The kernel answers the following within a few µs and never waits, so that the runtime is not told of
// them: for each system call of which it is, it looks after all threads for a ms, which costs
// more than these calls.

// peek reads the beginning of an open file of /proc.
func peek(file int, to []byte) (n int, err error) {
	// The offset, 0, is one or two registers, on some machines after one that is not used.
	r, _, e := unix.RawSyscall6(unix.SYS_PREAD64, uintptr(file), uintptr(unsafe.Pointer(unsafe.SliceData(to))), uintptr(len(to)), 0, 0, 0) //nolint:gosec // as unix.Pread does
	if e != 0 {
		return 0, e
	}
	return int(r), nil
}

// onCPU is the kernel's CPU clock of a process, clock_getcpuclockid(3).
func onCPU(pid int) (time.Duration, error) {
	clock := int32(^pid)<<3 | 2 //nolint:gosec // numbers of processes have 22 bits
	var t unix.Timespec
	_, _, e := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, uintptr(clock), uintptr(unsafe.Pointer(&t)), 0) //nolint:gosec // as unix.ClockGettime does
	if e == unix.EINVAL {                                                                              // no process has the number
		return 0, os.ErrNotExist
	} else if e != 0 {
		return 0, e
	}
	return time.Duration(t.Nano()), nil
}
