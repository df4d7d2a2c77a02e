package process

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Read returns the process that has that number now. The error wraps fs.ErrNotExist if
// there is none.
func Read(pid int) (ID, error) {
	s, err := readStat(pid)
	if err != nil {
		return ID{}, err
	}
	return ID{PID: pid, Start: s.start}, nil
}

// Alive tells whether the process runs still. One that has ended but was not waited for
// does not.
func (id ID) Alive() bool {
	s, err := readStat(id.PID)
	return err == nil && s.start == id.Start && s.state != 'Z' && s.state != 'X'
}

// CPU returns the CPU time that the process has used since its start, with that of the
// children that it has waited for. It may be called concurrently.
func (id ID) CPU() (time.Duration, error) {
	u, err := id.read()
	return u.CPU, err
}

// Clock returns what the threads of whoever has the process's number now have used since its
// start; 0: nobody has it. It is for telling whether it is worth to read more, takes less than
// 1 µs, and may be called concurrently.
func (id ID) Clock() time.Duration {
	d, err := onCPU(id.PID)
	if err != nil {
		return 0
	}
	return d
}

// Usage returns what the process has used since its start. It takes some 10 µs, and may be
// called concurrently.
func (id ID) Usage() (Usage, error) {
	u, err := id.read()
	if err == nil {
		u.Queued = queued(id.PID)
	}
	return u, err
}

func (id ID) read() (u Usage, err error) {
	s, err := readStat(id.PID)
	if err != nil {
		return u, err
	}
	if s.start != id.Start {
		return u, fmt.Errorf("CPU time of process %d: %w", id.PID, os.ErrProcessDone)
	}
	return s.usage(id.PID)
}

func (s *stat) usage(pid int) (u Usage, err error) {
	if u.CPU, err = onCPU(pid); err != nil {
		return Usage{}, err
	}
	u.Own, u.CPU, u.Threads = u.CPU, u.CPU+s.children, s.threads
	return u, nil
}

// onCPU is what the kernel's clock of a process tells.
func onCPU(pid int) (time.Duration, error) {
	t, err := clockOf(clock(pid))
	if errors.Is(err, unix.EINVAL) { // nobody has the number
		err = os.ErrNotExist
	}
	if err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// queued reads the second field of /proc/PID/schedstat.
func queued(pid int) time.Duration {
	var text [128]byte
	n, err := readProc(pid, "schedstat", text[:])
	if err != nil {
		return 0
	}
	return parseQueued(text[:n])
}

// clock is the kernel's clock of the CPU time that a process uses, clock_getcpuclockid(3).
func clock(pid int) int32 { return int32(^pid)<<3 | 2 } //nolint:gosec // numbers of processes have 22 bits

func readStat(pid int) (stat, error) {
	var none stat
	var line [1024]byte
	n, err := readProc(pid, "stat", line[:])
	if err != nil {
		return none, err
	}
	s, err := parseStat(line[:n])
	if err != nil {
		return none, fmt.Errorf("process %d: %w", pid, err)
	}
	return s, nil
}

// readProc reads the beginning of a file of /proc/PID.
func readProc(pid int, name string, to []byte) (n int, err error) {
	f, err := openProc(pid, name)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(f) }() // it was only read
	n, err = unix.Read(f, to)
	if err != nil || n == 0 { // it has ended in the meantime
		return 0, fmt.Errorf("process %d: %w", pid, os.ErrNotExist)
	}
	return n, nil
}
