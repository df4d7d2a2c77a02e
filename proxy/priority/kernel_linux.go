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

// SetNice implements kernel. To the kernel a priority is a thread's. Those threads that have the
// main one's follow it: one that is started while that is low would else stay low for good.
func (system) SetNice(pid, nice int) error {
	was, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
	if err == nil {
		err = unix.Setpriority(unix.PRIO_PROCESS, pid, nice)
	}
	if err != nil {
		return fmt.Errorf("set the priority of process %d: %w", pid, err)
	}
	names, _ := tasks(pid, mostFollow) // none: it has ended
	for _, name := range names {
		if tid, err := strconv.Atoi(name); err == nil && tid != pid {
			if x, err := unix.Getpriority(unix.PRIO_PROCESS, tid); err == nil && x == was {
				_ = unix.Setpriority(unix.PRIO_PROCESS, tid, nice) // it may have ended
			}
		}
	}
	return nil
}

// mostFollow threads follow the main one. There are more only if they were started after the
// process was seen to have few.
const mostFollow = 256

// tasks are the threads of a process, at most so many.
func tasks(pid, most int) ([]string, error) {
	dir, err := os.Open("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // it was only read
	return dir.Readdirnames(most)
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
	names, err := tasks(pid, mostThreads+1)
	if err != nil || len(names) > mostThreads {
		return false
	}
	if len(names) == 1 {
		return true
	}
	main, others := 0.0, 0.0
	for _, name := range names {
		used, ok := onCPU("/proc/" + strconv.Itoa(pid) + "/task/" + name + "/schedstat")
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
