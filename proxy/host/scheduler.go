package host

import (
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

// errPolicy means that the process isn't scheduled by nice values.
var errPolicy = errors.New("the process has its own scheduling policy")

// Nice implements kernel.
func (system) Nice(id process.ID) (int, error) {
	x, err := levelOf(id.PID)
	switch {
	case err != nil:
		return 0, fmt.Errorf("priority of process %d: %w", id.PID, err)
	case !id.Alive(): // checked last, so the priority that was read is this process's
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
	return process.ID{PID: above.PID, Start: above.Start}, id.Alive() // checked last, so above is this process's parent
}

// levelOf returns the priority of a thread. The system call returns 20 minus the nice value, because
// a negative number would be an error.
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

// setLevel changes the priority of a thread. When it leaves SCHED_IDLE, the thread briefly
// has its previous nice value.
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

// policyOf returns a thread's scheduling policy, or SCHED_NORMAL if the kernel doesn't report it.
func policyOf(tid int) int {
	x, _, errno := unix.Syscall(unix.SYS_SCHED_GETSCHEDULER, uintptr(tid), 0, 0)
	if errno != 0 {
		return unix.SCHED_NORMAL
	}
	return int(x & 0xff) // without the flag SCHED_RESET_ON_FORK
}

// setPolicy changes a thread's scheduling policy and keeps its nice value. It doesn't use
// sched_setattr, which systemd's RestrictRealtime may forbid.
func setPolicy(tid, policy int) error {
	var param int32 // a struct sched_param without a real-time priority
	_, _, errno := unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(tid), uintptr(policy),
		uintptr(unsafe.Pointer(&param))) //nolint:gosec // the system call needs a pointer
	if errno != 0 {
		return errno
	}
	return nil
}

// SetNice implements kernel. The kernel has a priority for each thread. Threads with the main thread's
// priority follow it; otherwise a thread that was started while the priority was low would keep it forever.
func (system) SetNice(pid, nice int) error {
	was, err := levelOf(pid)
	if err == nil {
		err = setLevel(pid, nice)
	}
	if err != nil {
		return fmt.Errorf("set the priority of process %d: %w", pid, err)
	}
	names, _ := tasks(pid, mostFollow) // an ended process has no threads
	for _, name := range names {
		if tid, err := strconv.Atoi(name); err == nil && tid != pid {
			if x, err := levelOf(tid); err == nil && x == was {
				_ = setLevel(tid, nice) // the thread may have ended
			}
		}
	}
	return nil
}

// mostFollow is how many threads follow the main thread.
const mostFollow = 256

// tasks returns the threads of a process, up to a limit.
func tasks(pid, most int) ([]string, error) {
	dir, err := os.Open("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // an error doesn't matter after reading
	return dir.Readdirnames(most)
}

// probe tests, on its own thread, whether this process can lower a priority and restore it, which requires
// CAP_SYS_NICE. If it can't restore the priority, the thread ends.
func probe() (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err = lowerAndBack(); err == nil {
			runtime.UnlockOSThread()
		}
	}()
	<-done
	return err
}

func lowerAndBack() error {
	own, err := levelOf(0)
	if err != nil {
		return fmt.Errorf("can't read this process's priority: %w", err)
	}
	if own >= lowestNice {
		return errors.New("this process itself has the lowest priority, so it can't test whether it may restore priorities")
	}
	for _, low := range []int{own + 1, idle} {
		if err := setLevel(0, low); err != nil {
			return fmt.Errorf("this process isn't allowed to change priorities: setpriority: %w", err)
		}
		if is, err := levelOf(0); err != nil || is != low { // a filter may block some of the system calls
			return errors.New("the kernel didn't report the new priority after setpriority (a system-call filter may block it)")
		}
		if err := setLevel(0, own); err != nil {
			return fmt.Errorf("this process isn't allowed to raise a priority again (it needs CAP_SYS_NICE): setpriority: %w", err)
		}
	}
	return nil
}
