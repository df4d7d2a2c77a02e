package process

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel answers these within a few µs and never waits, so that the runtime is not told of
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

// clockOf reads a clock.
func clockOf(id int32) (t unix.Timespec, err error) {
	if _, _, e := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, uintptr(id), uintptr(unsafe.Pointer(&t)), 0); e != 0 { //nolint:gosec // as unix.ClockGettime does
		return t, e
	}
	return t, nil
}
