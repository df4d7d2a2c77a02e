package host

import (
	"errors"
	"io/fs"
	"strings"
	"sync"

	"tempomat/cpuaccount/process"
)

// tempomat lowers the priority of a backend process while it works on a long request, and restores it
// afterwards. lifecycle.Life.Step decides how far.
//
// A process never gets a higher priority than it had. A process with the nice value 3 gets 8, then 13, then
// SCHED_IDLE, which is below all nice values. A process with a different scheduling policy (batch or real
// time) is never changed. When the request is over, the process gets back exactly the priority that it had,
// but only if it is still the same process (see process.ID) and still has the priority that it got here. If
// another program has changed the priority since then, that change stays.
//
// A change applies to the process's main thread and to all threads with the same nice value. The priority of a
// process is changed only while it serves a single request.
//
// The priority is changed only for workers that their server has forked: processes of the same program, with
// the server's priority. Nothing needs to be saved in case the proxy is killed: the next proxy sees that a
// worker's priority differs from its parent's, and restores it (Mend).

// Errors of Step. In each case the process stays as it is.
var (
	// ErrShared means that the process serves other requests at the same time.
	ErrShared = errors.New("the process serves several requests at a time")
	// errOwn means that the process's priority differs from its parent's. It isn't changed, because
	// after a crash the next proxy couldn't know what to restore.
	errOwn = errors.New("the process is not a worker with the same priority as the server that forked it")
)

// PriorityCounts are counts since the start, except for Lowered.
type PriorityCounts struct {
	Steps     [Steps]uint64 // number of lowered priorities, by step
	Restored  uint64        // processes whose priority was restored
	Ended     uint64        // processes that ended before their priority was restored
	Abandoned uint64        // processes whose priority wasn't restored, because another program had changed it
	Failed    uint64        // processes whose priority could not be restored
	Recovered uint64        // processes whose priority was restored after an earlier proxy had left it lowered
	Lowered   int           // processes whose priority is lowered now
}

// Steps is the number of steps down.
const Steps = 3

// StepDown returns by how much a step, 1 to 3, raises a process's nice value. While this process and another
// one at its original priority compute, this one gets a third (first step) or a tenth (second step) of the
// other's CPU time. The last step is SCHED_IDLE, whatever the original priority was: a three-hundredth of what
// a process at nice 0 gets.
func StepDown(step int) int { return [Steps]int{5, 10, idle}[step-1] }

// StepWeight returns the kernel's weight of a process after a step, compared with its weight at its own nice
// value; step 0 means no step. Each nice value changes the weight by a factor of 1.25, and SCHED_IDLE weighs
// 3 of 1024.
func StepWeight(step int) float64 {
	return [1 + Steps]float64{1, 335.0 / 1024, 110.0 / 1024, 3.0 / 1024}[step]
}

// Hold records how a request changed the priority of its process, so End can undo the change. The zero Hold
// has changed nothing.
type Hold struct { // guarded by the Keeper's mu
	over  bool
	place *change // change that the request caused; nil: none
}

// change is a process whose priority was changed.
type change struct {
	id   process.ID
	own  int // original priority of the process
	set  int // priority that the Keeper set last
	hold *Hold
}

// Keeper changes priorities. Its methods may be called concurrently.
type Keeper struct {
	kernel kernel

	mu      sync.Mutex // guards the fields below
	closed  bool
	changed map[int]*change
	counts  PriorityCounts
}

// OpenKeeper makes a Keeper that continues the counts of the previous one. It fails if this process isn't
// allowed to restore a priority, or if the kernel doesn't report priorities.
func OpenKeeper(before PriorityCounts) (*Keeper, error) {
	if err := probe(); err != nil {
		return nil, err
	}
	k := newKeeper(system{})
	k.counts = before
	return k, nil
}

func newKeeper(k kernel) *Keeper { return &Keeper{kernel: k, changed: make(map[int]*change)} }

// levelBelow returns the priority after a step for a process whose own priority is own.
func levelBelow(own, step int) int {
	if step == Steps {
		return idle
	}
	return min(own+StepDown(step), lowestNice)
}

// Step lowers the priority of a request's process to a step, 1 to 3, below its own. It does nothing if the
// request is over, or if the process already has that priority. After an error, don't try again for this
// request.
func (k *Keeper) Step(h *Hold, id process.ID, step int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if step <= 0 || k.closed || h.over {
		return nil
	}
	if h.place == nil {
		if err := k.admitLocked(h, id); err != nil {
			return err
		}
	}
	c := h.place
	to := levelBelow(c.own, min(step, Steps))
	if to <= c.set {
		if c.set == c.own { // the process already had the lowest priority
			k.dropLocked(c)
		}
		return nil
	}
	now, err := k.kernel.Nice(c.id)
	if err == nil && now != c.set {
		k.counts.Abandoned++
		err = errOwn
	}
	if err != nil {
		k.dropLocked(c)
		return err
	}
	if err = k.kernel.SetNice(id.PID, to); err != nil {
		if c.set == c.own {
			k.dropLocked(c)
		}
		return err
	}
	c.set = to
	k.counts.Steps[min(step, Steps)-1]++
	return nil
}

// admitLocked registers a process before its first change.
func (k *Keeper) admitLocked(h *Hold, id process.ID) error {
	if k.changed[id.PID] != nil {
		return ErrShared
	}
	now, own, err := levels(k.kernel, id)
	switch {
	case err != nil:
		return err
	case now != own && !isLeft(now, own):
		return errOwn
	}
	c := &change{id: id, own: own, set: now, hold: h}
	k.changed[id.PID], h.place = c, c
	return nil
}

// levels returns the current priorities of a worker and of its server.
func levels(k kernel, id process.ID) (now, own int, err error) {
	parent, ok := k.Parent(id)
	if !ok {
		return 0, 0, errOwn
	}
	if own, err = k.Nice(parent); err == nil {
		now, err = k.Nice(id)
	}
	return now, own, err
}

// isLeft reports whether now, a worker's current priority, was left by a proxy that was killed before it
// restored it. own is the priority of the worker's server.
func isLeft(now, own int) bool {
	for step := 1; step <= Steps; step++ {
		if now > own && now == levelBelow(own, step) {
			return true
		}
	}
	return false
}

// Mend restores the priority of a worker if an earlier proxy has left it lowered.
func (k *Keeper) Mend(id process.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, own, err := levels(k.kernel, id)
	if k.changed[id.PID] != nil || err != nil || !isLeft(now, own) {
		return
	}
	if k.kernel.SetNice(id.PID, own) == nil {
		k.counts.Recovered++
	} else {
		k.counts.Failed++ // the next proxy tries again
	}
}

// End restores the priority that the process had before the request.
func (k *Keeper) End(h *Hold) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h.over = true
	if h.place != nil {
		k.restoreLocked(h.place)
	}
}

// restoreLocked restores a process's own priority if it is the same process and still has the priority that
// it got here.
func (k *Keeper) restoreLocked(c *change) {
	now, err := k.kernel.Nice(c.id)
	switch {
	case err != nil:
		k.counts.Ended++
	case now != c.own && now != c.set:
		k.counts.Abandoned++
	case now == c.own, k.kernel.SetNice(c.id.PID, c.own) == nil:
		k.counts.Restored++
	default:
		k.counts.Failed++ // the next proxy tries again
	}
	k.dropLocked(c)
}

// dropLocked forgets a process.
func (k *Keeper) dropLocked(c *change) {
	c.hold.place = nil
	delete(k.changed, c.id.PID)
}

// Close restores all priorities and ends the Keeper. Later calls do nothing.
func (k *Keeper) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	for _, c := range k.changed {
		k.restoreLocked(c)
	}
}

// Counts returns the counts so far.
func (k *Keeper) Counts() PriorityCounts {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.counts
	c.Lowered = len(k.changed)
	return c
}

// IsForbidden reports whether an error from Step means that this process isn't allowed to change that
// priority. Trying again is then useless.
func IsForbidden(err error) bool { return errors.Is(err, fs.ErrPermission) }

const (
	// lowestNice is the lowest priority with a nice value.
	lowestNice = 19
	// idle stands for SCHED_IDLE (sched(7)), which is below all nice values. Its weight is 3, a fifth of that
	// of nice 19 (15). Another effect helps more: when a process wakes up, the kernel treats a CPU that runs
	// only idle processes as free. Two short requests then don't share one CPU while a long request has the
	// other.
	idle = lowestNice + 1
)

// kernel reads and changes priorities. Its methods may be called concurrently.
type kernel interface {
	// Nice returns the priority of a process: from -20, the highest, to 19, or idle. It fails if the process
	// has ended, even if another process has its number now, or if its scheduling policy is neither normal
	// nor idle.
	Nice(id process.ID) (int, error)
	// SetNice changes the priority of a process, and of those of its threads that have the same priority.
	SetNice(pid, nice int) error
	// Parent returns the process that forked this one and runs the same program; ok is false if there is none.
	Parent(id process.ID) (process.ID, bool)
}

// isSameProgram compares the names of two processes. Some programs append the process's task, after a colon or
// a space: "gunicorn: maste" and "gunicorn: worke".
func isSameProgram(a, b string) bool {
	program := func(name string) string {
		if i := strings.IndexAny(name, ": "); i > 0 {
			return name[:i]
		}
		return name
	}
	return program(a) == program(b)
}
