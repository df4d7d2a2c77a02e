package host

import (
	"errors"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"

	"tempomat/cpuaccount/process"
)

// The priority of a backend process is lowered while it works on a long request, and put back.
// lifecycle.Life.Step decides how low.
//
// A priority is only ever lowered: a process that had nice 3 gets 8, 13, or SCHED_IDLE, which is
// below all nice values; never less than 3. One that has another scheduling policy (batch, or of
// real time) is left alone. It gets back exactly what it had, and only if it is the same process
// (by its start, see process.ID) and still has the priority that it got here: a change by
// another program since then stays.
//
// The nice value of a process is that of its main thread, so a process is only changed if its
// other threads do not compute, and only while it serves one request.
//
// Only workers that their server has forked are changed: the same program, with the priority of
// that server. So nothing need be saved in case this process is killed: a worker had what its
// parent has, which shows the next proxy which workers were left behind, and it puts them back
// (Mend).

// Errors of Step. The process is left as it is.
var (
	// ErrShared says that the process serves other requests at the same time, or computes
	// with several threads.
	ErrShared = errors.New("the process serves several requests at a time")
	// errOwn: it has a priority of its own, which could not be restored after a crash.
	errOwn = errors.New("the process is no worker that has the priority of the program which forked it")
	// errChanged: another program has changed the priority.
	errChanged = errors.New("another program changed the priority of the process")
)

// PriorityCounts are since the start, except for Lowered.
type PriorityCounts struct {
	Steps     [Steps]uint64 // by how far down they led
	Restored  uint64        // processes that were put back as they were
	Ended     uint64        // of those that were lowered, processes that ended in the meantime
	Abandoned uint64        // left as they are, because another program changed their priority
	Failed    uint64        // could not be put back
	Recovered uint64        // put back after another proxy that had left them behind
	Lowered   int           // now
}

// Steps is how many steps there are down from what a process had.
const Steps = 3

// StepDown is how far a step, 1 to 3, is below what a process had. By weight, which is what the
// kernel goes by, it is a third and a tenth. The last one is below all nice values, whatever the
// process had: its weight is a three-hundredth.
func StepDown(step int) int { return [Steps]int{5, 10, idle}[step-1] }

// StepWeight is what a process weighs that has stepped down, or at 0 has not, compared with one that was at the same
// nice value and has not: each nice value changes the weight by a factor of 1.25, and SCHED_IDLE weighs 3 of 1024.
func StepWeight(step int) float64 {
	return [1 + Steps]float64{1, 335.0 / 1024, 110.0 / 1024, 3.0 / 1024}[step]
}

// Plus adds up the counts of two Keepers.
func (c PriorityCounts) Plus(o PriorityCounts) PriorityCounts {
	for i := range c.Steps {
		c.Steps[i] += o.Steps[i]
	}
	c.Restored += o.Restored
	c.Ended += o.Ended
	c.Abandoned += o.Abandoned
	c.Failed += o.Failed
	c.Recovered += o.Recovered
	c.Lowered += o.Lowered
	return c
}

// Hold is a request's part in the priority of the process that serves it. The zero Hold has
// changed nothing. It is for one request.
type Hold struct {
	state atomic.Uint32
	place *change // nil: none; guarded by the Keeper's mu
}

const (
	untouched = iota
	touched   // a Step was begun
	over
)

// change is a process whose priority was changed.
type change struct {
	id   process.ID
	own  int // what it had
	set  int // what it was given last
	hold *Hold
}

// Keeper changes priorities. Its methods may be called concurrently.
type Keeper struct {
	kernel kernel
	lowest int // the lowest priority: lowestNice or idle

	mu      sync.Mutex // guards the following
	closed  bool
	changed map[int]*change
	counts  PriorityCounts
}

// OpenKeeper makes a Keeper. It fails where this process has no right to put a priority back, or
// the kernel does not tell what is needed.
func OpenKeeper() (*Keeper, error) {
	lowest, err := probe()
	if err != nil {
		return nil, err
	}
	return newKeeper(system{}, lowest), nil
}

// newKeeper makes a Keeper that has no process be lower than lowest.
func newKeeper(k kernel, lowest int) *Keeper {
	return &Keeper{kernel: k, lowest: lowest, changed: make(map[int]*change)}
}

// levelBelow is what a process has after a step that had own.
func levelBelow(own, step, lowest int) int {
	if step == Steps {
		return lowest
	}
	return min(own+StepDown(step), lowestNice)
}

// Step lowers the priority of the process that serves a request to a step, 1 to 3, below
// what it had. It does nothing once the request is over, or if it is as low already. After
// an error there is no use in another try for this request.
func (k *Keeper) Step(h *Hold, id process.ID, step int) error {
	if step <= 0 || h.state.Load() == over {
		return nil
	}
	h.state.CompareAndSwap(untouched, touched)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || h.state.Load() == over {
		return nil
	}
	if h.place == nil {
		if err := k.admitLocked(h, id); err != nil {
			return err
		}
	}
	c := h.place
	to := levelBelow(c.own, min(step, Steps), k.lowest)
	if to <= c.set {
		if c.set == c.own { // it is as low as can be
			k.dropLocked(c)
		}
		return nil
	}
	now, err := k.kernel.Nice(c.id)
	if err == nil && now != c.set {
		k.counts.Abandoned++
		err = errChanged
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

// admitLocked takes in a process that was not touched before.
func (k *Keeper) admitLocked(h *Hold, id process.ID) error {
	if k.changed[id.PID] != nil || !k.kernel.Alone(id.PID) {
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

// levels are what a worker has, and what its server has.
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

// isLeft reports whether a worker whose server has own was lowered to what it has now, by a proxy
// that was killed.
func isLeft(now, own int) bool {
	for step := 1; step <= Steps; step++ {
		if now > own && (now == levelBelow(own, step, lowestNice) || now == levelBelow(own, step, idle)) {
			return true
		}
	}
	return false
}

// Mend puts a worker back that another proxy has left behind.
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
		k.counts.Failed++ // the next one tries again
	}
}

// MendAll does so with the workers of these numbers.
func (k *Keeper) MendAll(workers []int) {
	for _, pid := range workers {
		if id, err := process.Read(pid); err == nil { // else it has ended
			k.Mend(id)
		}
	}
}

// End puts the process back as it was before the request. A process that was never changed
// costs nothing here.
func (k *Keeper) End(h *Hold) {
	if h.state.CompareAndSwap(untouched, over) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	h.state.Store(over)
	if h.place != nil {
		k.restoreLocked(h.place)
	}
}

// restoreLocked gives a process the priority that it had, if it is the same one and has what it was given.
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

// dropLocked takes a process out of the books.
func (k *Keeper) dropLocked(c *change) {
	c.hold.place = nil
	delete(k.changed, c.id.PID)
}

// Restore puts all processes back as they were. Those of requests that go on are lowered
// again by their next Step.
func (k *Keeper) Restore() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.changed {
		k.restoreLocked(c)
	}
}

// Close puts all back, and ends the Keeper: later calls do nothing.
func (k *Keeper) Close() {
	k.Restore()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
}

// Counts returns what was done.
func (k *Keeper) Counts() PriorityCounts {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.counts
	c.Lowered = len(k.changed)
	return c
}

// IsForbidden reports whether an error of Step says that the kernel does not let this process
// change that one's priority: it is not worth another try.
func IsForbidden(err error) bool { return errors.Is(err, fs.ErrPermission) }

const (
	// lowestNice is the nice value of the lowest priority that has one.
	lowestNice = 19
	// idle is below all of them: SCHED_IDLE (sched(7)), whose weight of 3 is a fifth of what nice 19
	// has, 15. It helps less by its weight than by where the kernel puts a process that wakes up: a CPU
	// that only runs idle processes is as good as an empty one, so two short requests don't share one
	// CPU while a long one has the other.
	idle = lowestNice + 1
)

// scheduler is what tells and changes priorities. Its methods may be called concurrently.
type scheduler interface {
	// Nice is the priority of a process: -20, the highest, to 19, or idle. It fails if the process
	// has ended, also if its number is another one's now, or has another scheduling policy.
	Nice(id process.ID) (int, error)
	// SetNice changes it, and that of the threads which have the same.
	SetNice(pid, nice int) error
}

// kernel is what the system is asked. Its methods may be called concurrently.
type kernel interface {
	scheduler
	// Parent is the process that has forked one, and is the same program; not ok: there is none.
	Parent(id process.ID) (process.ID, bool)
	// Alone reports whether none but the main thread of a process computes.
	Alone(pid int) bool
}

// isSameProgram compares the names of two processes. Some names add after a colon or a space
// what the process does: "gunicorn: maste" and "gunicorn: worke".
func isSameProgram(a, b string) bool {
	program := func(name string) string {
		if i := strings.IndexAny(name, ": "); i > 0 {
			return name[:i]
		}
		return name
	}
	return program(a) == program(b)
}
