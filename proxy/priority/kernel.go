package priority

import "tempomat/cpuaccount/process"

// lowest is the lowest priority that there is.
const lowest = 19

// kernel is what the system is asked. Its methods may be called concurrently.
type kernel interface {
	// Nice is the priority of a process: -20, the highest, to 19. It fails if the process has
	// ended, also if its number is another one's now.
	Nice(id process.ID) (int, error)
	// SetNice changes it, and that of the threads which have the same.
	SetNice(pid, nice int) error
	// Alone tells whether none but the main thread of a process computes.
	Alone(pid int) bool
}
