// Package process identifies processes on this machine and reads their CPU time.
//
// # What is counted
//
// The kernel's CPU clock of a process counts the nanoseconds that all its threads have spent on a CPU,
// including threads that have ended. The time of its children is added, in steps of 10 ms, when the process
// has waited for them to end. The last few milliseconds of a running thread may be missing. Reading these
// clocks needs no privileges.
package process

import (
	"os"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ID identifies a process. If another process gets its number later, the start differs.
type ID struct {
	PID   int    // its number in the PID namespace of this program
	Start uint64 // in clock ticks since the machine started
}

// Usage is a process's use of the CPUs since its start.
type Usage struct {
	CPU     time.Duration // of its threads, and of the children that it has waited for
	Queued  time.Duration // how long its first thread waited for a CPU; 0 if the kernel doesn't count it
	Threads int           // current number of threads
}

// Alive reports whether the process is still running. A zombie isn't.
func (id ID) Alive() bool {
	line, _ := os.ReadFile("/proc/" + strconv.Itoa(id.PID) + "/stat") // after an error, it is empty, and can't be parsed
	s, err := ParseStat(line)
	return err == nil && s.Start == id.Start && s.State != 'Z' && s.State != 'X'
}

// The kernel handles the following calls within microseconds and never blocks. They bypass Go's scheduler,
// because its work for an ordinary system call takes longer than these calls.

// peek reads the beginning of an open file of /proc.
func peek(file int, to []byte) (n int, err error) {
	// The architecture determines which registers contain the offset. It is 0, so all registers that may contain
	// it are 0.
	r, _, e := unix.RawSyscall6(unix.SYS_PREAD64, uintptr(file), uintptr(unsafe.Pointer(unsafe.SliceData(to))), uintptr(len(to)), 0, 0, 0) //nolint:gosec // as unix.Pread does
	if e != 0 {
		return 0, e
	}
	return int(r), nil
}

// onCPU reads the kernel's CPU clock of a process; see clock_getcpuclockid(3).
func onCPU(pid int) (time.Duration, error) {
	clock := int32(^pid)<<3 | 2 //nolint:gosec // process numbers have at most 22 bits
	var t unix.Timespec
	_, _, e := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, uintptr(clock), uintptr(unsafe.Pointer(&t)), 0) //nolint:gosec // as unix.ClockGettime does
	switch e {
	case 0:
		return time.Duration(t.Nano()), nil
	case unix.EINVAL: // no process has this number
		return 0, os.ErrNotExist
	default:
		return 0, e
	}
}
