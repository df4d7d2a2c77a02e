package process

import (
	"fmt"
	"os"
	"strconv"
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
	s, err := readStat(id.PID)
	if err != nil {
		return 0, err
	}
	if s.start != id.Start {
		return 0, fmt.Errorf("CPU time of process %d: %w", id.PID, os.ErrProcessDone)
	}
	var t unix.Timespec
	if err := unix.ClockGettime(clock(id.PID), &t); err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", id.PID, err)
	}
	return time.Duration(t.Nano()) + s.children, nil
}

// clock is the kernel's clock of the CPU time that a process uses, clock_getcpuclockid(3).
func clock(pid int) int32 { return int32(^pid)<<3 | 2 } //nolint:gosec // numbers of processes have 22 bits

func readStat(pid int) (stat, error) {
	var none stat
	if pid <= 0 {
		return none, fmt.Errorf("process %d: %w", pid, os.ErrNotExist)
	}
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return none, fmt.Errorf("process %d: %w", pid, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	var line [1024]byte
	n, err := f.Read(line[:])
	if err != nil { // it has ended meanwhile
		return none, fmt.Errorf("process %d: %w: %w", pid, os.ErrNotExist, err)
	}
	s, err := parseStat(line[:n])
	if err != nil {
		return none, fmt.Errorf("process %d: %w", pid, err)
	}
	return s, nil
}
