// Package process names a process of this machine for good, and tells what it has used of
// the CPUs. Elsewhere than on Linux every call fails.
//
// # What is counted
//
// The kernel's clock of a process counts ns on a CPU, of all its threads, those that have
// ended included. What its children used, and theirs, is added when it has waited for them,
// in steps of 10 ms. While a thread is on a CPU its last few ms may be missing (a tick of the
// kernel); when it sleeps, none are. No right is needed for either.
package process

import "time"

// ID is a process. A number that is used again is another process: it has another start.
type ID struct {
	PID   int    // as this process's PID namespace has it
	Start uint64 // in clock ticks after the machine's start
}

// Usage is what a process has used since its start.
type Usage struct {
	CPU     time.Duration // as CPU tells it
	Own     time.Duration // the part of that which its own threads used, as Clock tells it
	Queued  time.Duration // that its first thread was ready to run and had no CPU; 0 where the kernel does not count it
	Threads int           // that it has now
}
