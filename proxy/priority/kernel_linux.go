package priority

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"tempomat/cpuaccount/process"
)

// system is this machine's kernel.
type system struct{}

// Nice implements kernel. The system call tells 20 less the nice value, as a negative
// number would be an error.
func (system) Nice(id process.ID) (int, error) {
	x, err := unix.Getpriority(unix.PRIO_PROCESS, id.PID)
	switch {
	case err != nil:
		return 0, fmt.Errorf("priority of process %d: %w", id.PID, err)
	case !id.Alive(): // asked last, so that what was told is its own
		return 0, fmt.Errorf("priority of process %d: %w", id.PID, os.ErrProcessDone)
	}
	return 20 - x, nil
}

// SetNice implements kernel.
func (system) SetNice(pid, nice int) error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, pid, nice); err != nil {
		return fmt.Errorf("set the priority of process %d: %w", pid, err)
	}
	return nil
}

const (
	// mostThreads of a process are looked at. One with more is no worker with one request.
	mostThreads = 8
	// besideMost is the part of the main thread's CPU time that all others may have used:
	// interpreters have one that only watches the clock.
	besideMost = 1.0 / 16
)

// Alone implements kernel, by what the threads have used since they were started.
func (system) Alone(pid int) bool {
	tasks := "/proc/" + strconv.Itoa(pid) + "/task"
	dir, err := os.Open(tasks)
	if err != nil {
		return false
	}
	defer func() { _ = dir.Close() }() // it was only read
	names, err := dir.Readdirnames(mostThreads + 1)
	if err != nil || len(names) > mostThreads {
		return false
	}
	if len(names) == 1 {
		return true
	}
	main, others := 0.0, 0.0
	for _, name := range names {
		used, ok := onCPU(tasks + "/" + name + "/schedstat")
		switch {
		case !ok:
			return false
		case name == strconv.Itoa(pid):
			main = used
		default:
			others += used
		}
	}
	return others <= besideMost*main
}

// onCPU is the first number of a thread's schedstat: ns on a CPU.
func onCPU(name string) (ns float64, ok bool) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, false
	}
	first, _, _ := bytes.Cut(text, []byte{' '})
	ns, err = strconv.ParseFloat(string(first), 64)
	return ns, err == nil
}

// probe tries on a thread of its own whether a priority that was lowered can be put back,
// which takes another right than to lower it. The thread ends if it cannot.
func probe() error {
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := lowerAndBack()
		if err == nil {
			runtime.UnlockOSThread()
		}
		failed <- err
	}()
	return <-failed
}

func lowerAndBack() error {
	x, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return fmt.Errorf("the kernel does not tell priorities: %w", err)
	}
	own := 20 - x
	if own >= lowest {
		return errors.New("this process has the lowest priority itself")
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, own+1); err != nil {
		return fmt.Errorf("no right to change a priority: setpriority: %w", err)
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, own); err != nil {
		return fmt.Errorf("no right to raise a priority again (CAP_SYS_NICE): setpriority: %w", err)
	}
	return nil
}
