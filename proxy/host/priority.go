package host

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"tempomat/cpuaccount/process"
)

// Errors of Step. The process is left as it is.
var (
	// ErrShared says that the process serves other requests beside this one, or computes
	// with several threads.
	ErrShared = errors.New("the process serves several requests at a time")
	// errFull says that as many processes are lowered as the record has room for.
	errFull = errors.New("the record of lowered priorities is full")
	// ErrRecord says that it cannot be written down what was changed.
	ErrRecord = errors.New("the record of lowered priorities cannot be written")
	// errChanged says that somebody else has changed the priority.
	errChanged = errors.New("somebody else has changed the priority of the process")
)

// PriorityCounts are since the start, but for Lowered.
type PriorityCounts struct {
	Steps     [Steps]uint64 // by how far down they led
	Restored  uint64        // processes that were put back as they were
	Ended     uint64        // of those that were lowered, processes that ended meanwhile
	Abandoned uint64        // left as they are, as somebody else has changed their priority
	Failed    uint64        // could not be put back; they stay in the record
	Recovered uint64        // put back after another proxy that had left them behind
	Lowered   int           // now
}

// Steps is how many steps there are down from what a process had.
const Steps = 3

// StepDown is how far a step, 1 to 3, is below what a process had. By weight, which is what the
// kernel goes by, it is a third and a tenth. The last one is below all nice values, whatever the
// process had: its weight is a three-hundredth.
func StepDown(step int) int { return [Steps]int{5, 10, idle}[step-1] }

// StepWeight is what a process weighs that has stepped down, or at 0 has not, beside one that was at the same nice value and
// has not: the kernel has the nice value change it by a factor of 1.25 each, and SCHED_IDLE weigh 3 of 1024.
func StepWeight(step int) float64 {
	return [1 + Steps]float64{1, 335.0 / 1024, 110.0 / 1024, 3.0 / 1024}[step]
}

// level is what a process has after a step that had own.
func (k *Keeper) level(own, step int) int {
	if step == Steps {
		return k.lowest
	}
	return min(own+StepDown(step), lowestNice)
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
	slot int
	entry
	hold *Hold
}

// Keeper changes priorities. Its methods may be called concurrently.
type Keeper struct {
	kernel kernel
	record *record
	lowest int        // the lowest priority: lowestNice or idle
	writes sync.Mutex // guards what is written to it; taken before mu

	mu      sync.Mutex // guards the following
	closed  bool
	changed map[int]*change
	free    []int // slots of the record
	stale   []int // slots of what is put back, and stands there still
	counts  PriorityCounts
}

// OpenKeeper makes a Keeper that keeps its record in the file at path, which it makes, and puts
// back what others have left behind there. It fails where this process has no right to put
// a priority back, or cannot write the record, or the kernel does not tell what is needed.
func OpenKeeper(path string) (*Keeper, error) {
	lowest, err := probe()
	if err != nil {
		return nil, err
	}
	return open(path, system{}, lowest)
}

// open makes a Keeper that has no process be lower than lowest.
func open(path string, k kernel, lowest int) (*Keeper, error) {
	file, err := openFile(path)
	if err != nil {
		return nil, err
	}
	left := file.restore(k)
	r, err := file.take()
	if err != nil {
		return nil, errors.Join(err, file.close())
	}
	keeper := &Keeper{kernel: k, record: r, lowest: lowest, changed: make(map[int]*change)}
	keeper.counts.Recovered = uint64(left.Restored) //nolint:gosec // not negative
	for slot := slots - 1; slot >= 0; slot-- {
		keeper.free = append(keeper.free, slot)
	}
	return keeper, nil
}

// Step lowers the priority of the process that serves a request to a step, 1 to 3, below
// what it had. It does nothing once the request is over, or if it is as low already. After
// an error there is no use in another try for this request. It writes to a file, which End
// never waits for.
func (k *Keeper) Step(h *Hold, id process.ID, step int) error {
	if step <= 0 || h.state.Load() == over {
		return nil
	}
	h.state.CompareAndSwap(untouched, touched)
	k.writes.Lock()
	defer k.writes.Unlock()
	k.flush() // what an earlier request of this process had left there could else be taken for this one's
	c, next, err := k.plan(h, id, min(step, Steps))
	if c == nil || err != nil {
		return err
	}
	err = k.record.write(c.slot, next)
	k.mu.Lock()
	defer k.mu.Unlock()
	if h.place != c {
		return nil // it is over meanwhile, and what was written is stale
	}
	if err != nil {
		err = errors.Join(ErrRecord, err)
	} else if err = k.kernel.SetNice(id.PID, next.set); err == nil {
		c.entry = next
		k.counts.Steps[min(step, Steps)-1]++
		return nil
	}
	if c.set == c.own {
		k.dropLocked(c)
	}
	return err
}

// plan is what to change, and what to write down before; nil: nothing.
func (k *Keeper) plan(h *Hold, id process.ID, step int) (c *change, next entry, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || h.state.Load() == over {
		return nil, next, nil
	}
	if c = h.place; c == nil {
		if c, err = k.admitLocked(h, id); err != nil {
			return nil, next, err
		}
	}
	return k.nextLocked(c, step)
}

// nextLocked is how a process is to step down.
func (k *Keeper) nextLocked(c *change, step int) (*change, entry, error) {
	next := c.entry
	next.set = k.level(c.own, step)
	if next.set <= c.set {
		if c.set == c.own { // it is as low as can be
			k.dropLocked(c)
		}
		return nil, next, nil
	}
	now, err := k.kernel.Nice(c.id)
	if err == nil && now != c.set {
		k.counts.Abandoned++
		err = errChanged
	}
	if err != nil {
		k.dropLocked(c)
		return nil, next, err
	}
	next.before = now
	return c, next, nil
}

// Flush takes out of the record what is put back.
func (k *Keeper) Flush() {
	k.writes.Lock()
	defer k.writes.Unlock()
	k.flush()
}

func (k *Keeper) flush() {
	k.mu.Lock()
	stale := k.stale
	k.stale = nil
	closed := k.closed
	k.mu.Unlock()
	if closed || len(stale) == 0 {
		return
	}
	for _, slot := range stale {
		if k.record.clear(slot) != nil {
			continue // it is not used again
		}
		k.mu.Lock()
		k.free = append(k.free, slot)
		k.mu.Unlock()
	}
}

// admitLocked takes in a process that was not touched before.
func (k *Keeper) admitLocked(h *Hold, id process.ID) (*change, error) {
	switch {
	case k.changed[id.PID] != nil || !k.kernel.Alone(id.PID) || k.record.isOthers(id):
		return nil, ErrShared
	case len(k.free) == 0:
		return nil, errFull
	}
	own, err := k.kernel.Nice(id)
	if err != nil {
		return nil, err
	}
	last := len(k.free) - 1
	c := &change{slot: k.free[last], hold: h, entry: entry{id: id, own: own, set: own}}
	k.free, k.changed[id.PID], h.place = k.free[:last], c, c
	return c, nil
}

// End puts the process back as it was before the request. What never was touched costs
// nothing here.
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

func (k *Keeper) restoreLocked(c *change) {
	switch result := putBack(k.kernel, c.entry); result {
	case failed:
		k.counts.Failed++
		// It stays in the record, for whoever has the right. The number is free for another
		// process.
		c.hold.place = nil
		delete(k.changed, c.id.PID)
		return
	case restored, same:
		k.counts.Restored++
	case ended:
		k.counts.Ended++
	case abandoned:
		k.counts.Abandoned++
	}
	k.dropLocked(c)
}

// dropLocked takes a process out of the books.
func (k *Keeper) dropLocked(c *change) {
	c.hold.place = nil
	delete(k.changed, c.id.PID)
	k.stale = append(k.stale, c.slot)
}

// Restore puts all processes back as they were. Those of requests that go on are lowered
// again by their next Step. It also looks what others have left behind meanwhile.
func (k *Keeper) Restore() {
	k.writes.Lock()
	defer k.writes.Unlock()
	k.restoreAll()
}

func (k *Keeper) restoreAll() {
	k.mu.Lock()
	for _, c := range k.changed {
		k.restoreLocked(c)
	}
	closed := k.closed
	k.mu.Unlock()
	if closed {
		return
	}
	k.flush()
	left := k.record.file.restore(k.kernel)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.counts.Recovered += uint64(left.Restored) //nolint:gosec // not negative
}

// Close puts all back, and ends the Keeper: later calls do nothing.
func (k *Keeper) Close() error {
	k.writes.Lock()
	defer k.writes.Unlock()
	k.restoreAll()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil
	}
	k.closed = true
	return k.record.file.close()
}

// Counts tells what was done.
func (k *Keeper) Counts() PriorityCounts {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.counts
	c.Lowered = len(k.changed)
	return c
}

// IsForbidden tells whether an error of Step says that the kernel does not let this process
// change that one's priority: it is not worth another try.
func IsForbidden(err error) bool { return errors.Is(err, fs.ErrPermission) }

const (
	// lowestNice is the nice value of the lowest priority that has one.
	lowestNice = 19
	// idle is below all of them: SCHED_IDLE (sched(7)), whose weight of 3 is a fifth of what nice 19
	// has, 15. More than by its weight it helps by where the kernel puts a process that wakes up: a CPU
	// on which only idle ones run is to it as good as an empty one, so that two short requests do
	// not share one CPU while a long one has the other.
	idle = lowestNice + 1
)

// kernel is what the system is asked. Its methods may be called concurrently.
type kernel interface {
	// Nice is the priority of a process: -20, the highest, to 19, or idle. It fails if the process
	// has ended, also if its number is another one's now, or has another scheduling policy.
	Nice(id process.ID) (int, error)
	// SetNice changes it, and that of the threads which have the same.
	SetNice(pid, nice int) error
	// Alone tells whether none but the main thread of a process computes.
	Alone(pid int) bool
}

// Left is what became of processes that proxies had lowered and left behind.
type Left struct {
	Restored  int
	Ended     int // the number may be another process's now, which was not touched
	Abandoned int // somebody else has changed their priority since
	Failed    int // could not be put back; they stay in the record
	Busy      int // segments of the record that running proxies hold
}

// RestorePriorities puts back what proxies have left behind that have ended, by the record in the
// file at path. If there is none there is nothing to do. The error is the file's.
func RestorePriorities(path string) (Left, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return Left{}, nil
	}
	file, err := openFile(path)
	if err != nil {
		return Left{}, err
	}
	left := file.restore(system{})
	return left.Left, errors.Join(left.failure, file.close())
}

// result is what became of a process.
type result uint8

const (
	restored result = iota
	same            // it had its own already
	ended
	abandoned
	failed
)

// putBack gives a process the priority that it had, if it is the same one and has what it
// was given, or, if this did not come about, what it had right before.
func putBack(k kernel, e entry) result {
	now, err := k.Nice(e.id)
	switch {
	case err != nil:
		return ended
	case now == e.own:
		return same
	case now != e.set && now != e.before:
		return abandoned
	case k.SetNice(e.id.PID, e.own) == nil:
		return restored
	}
	return failed
}

// entry is a line of the record.
type entry struct {
	id     process.ID
	own    int // the nice value that the process had
	before int // what it had before it was changed last
	set    int // what it was given then
}
