package host

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"tempomat/cpuaccount/process"
)

// system is this machine's kernel.
type system struct{}

// errPolicy: the process is not scheduled by nice values.
var errPolicy = errors.New("the process has a scheduling policy of its own")

// Nice implements kernel.
func (system) Nice(id process.ID) (int, error) {
	x, err := levelOf(id.PID)
	switch {
	case err != nil:
		return 0, fmt.Errorf("priority of process %d: %w", id.PID, err)
	case !id.Alive(): // asked last, so that what was told is its own
		return 0, fmt.Errorf("priority of process %d: %w", id.PID, os.ErrProcessDone)
	}
	return x, nil
}

// Parent implements kernel.
func (system) Parent(id process.ID) (parent process.ID, ok bool) {
	root := os.DirFS("/")
	child, ok := processAt(root, id.PID)
	if !ok {
		return parent, false
	}
	above, ok := processAt(root, child.Parent)
	if !ok || !isSameProgram(string(child.Name), string(above.Name)) {
		return parent, false
	}
	return process.ID{PID: above.PID, Start: above.Start}, id.Alive() // asked last, so that what was told is its own
}

// levelOf is the priority of a thread. The system call tells 20 less the nice value, as a negative
// number would be an error.
func levelOf(tid int) (int, error) {
	x, err := unix.Getpriority(unix.PRIO_PROCESS, tid)
	if err != nil {
		return 0, err
	}
	switch policyOf(tid) {
	case unix.SCHED_NORMAL:
		return 20 - x, nil
	case unix.SCHED_IDLE:
		return idle, nil
	}
	return 0, errPolicy
}

// setLevel changes that of a thread. In between it has a nice value that it had before.
func setLevel(tid, to int) error {
	if to == idle {
		return setPolicy(tid, unix.SCHED_IDLE)
	}
	if policyOf(tid) == unix.SCHED_IDLE {
		if err := setPolicy(tid, unix.SCHED_NORMAL); err != nil {
			return err
		}
	}
	return unix.Setpriority(unix.PRIO_PROCESS, tid, to)
}

// policyOf is a thread's scheduling policy, the usual one where the system does not tell.
func policyOf(tid int) int {
	x, _, errno := unix.Syscall(unix.SYS_SCHED_GETSCHEDULER, uintptr(tid), 0, 0)
	if errno != 0 {
		return unix.SCHED_NORMAL
	}
	return int(x & 0xff) // except for SCHED_RESET_ON_FORK
}

// setPolicy changes it. The nice value stays. It is not sched_setattr, which units of systemd may
// keep out with RestrictRealtime.
func setPolicy(tid, policy int) error {
	var param int32 // a struct sched_param, of no real-time priority
	_, _, errno := unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(tid), uintptr(policy),
		uintptr(unsafe.Pointer(&param))) //nolint:gosec // for the kernel
	if errno != 0 {
		return errno
	}
	return nil
}

// SetNice implements kernel. To the kernel a priority is a thread's. Those threads that have the
// main one's follow it: one that is started while that is low would else stay low for good.
func (system) SetNice(pid, nice int) error {
	was, err := levelOf(pid)
	if err == nil {
		err = setLevel(pid, nice)
	}
	if err != nil {
		return fmt.Errorf("set the priority of process %d: %w", pid, err)
	}
	names, _ := tasks(pid, mostFollow) // none: it has ended
	for _, name := range names {
		if tid, err := strconv.Atoi(name); err == nil && tid != pid {
			if x, err := levelOf(tid); err == nil && x == was {
				_ = setLevel(tid, nice) // it may have ended
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
// which takes another right than to lower it, and tells how low it may be. The thread ends if it
// cannot.
func probe() (lowest int, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err = lowerAndBack(); err != nil {
			return
		}
		if lowest = lowestNice; setPolicy(0, unix.SCHED_IDLE) == nil {
			isSeen := policyOf(0) == unix.SCHED_IDLE // what filters system calls may keep one of them out
			if setPolicy(0, unix.SCHED_NORMAL) != nil {
				return
			}
			if isSeen {
				lowest = idle
			}
		}
		runtime.UnlockOSThread()
	}()
	<-done
	return lowest, err
}

func lowerAndBack() error {
	own, err := levelOf(0)
	if err != nil {
		return fmt.Errorf("the kernel does not show priorities: %w", err)
	}
	if own >= lowestNice {
		return errors.New("this process has the lowest priority itself")
	}
	if err := setLevel(0, own+1); err != nil {
		return fmt.Errorf("this process may not change priorities: setpriority: %w", err)
	}
	if err := setLevel(0, own); err != nil {
		return fmt.Errorf("this process may not raise a priority again (it needs CAP_SYS_NICE): setpriority: %w", err)
	}
	return nil
}
