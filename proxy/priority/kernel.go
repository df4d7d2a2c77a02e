package priority

import "tempomat/cpuaccount/process"

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
