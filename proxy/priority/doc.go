// Package priority lowers the scheduling priority of processes of the backend while they
// work on what is long, and puts each back as it was. Linux only; elsewhere Open fails.
//
//	keeper.go  what is lowered now, and for which request
//	record.go  the same on disk, so that a crash leaves nothing behind
//	lock_linux.go which of the running proxies a part of the record belongs to
//	restore.go what others have left behind
//	kernel*.go what the system is asked
//	other.go   what there is on other systems: nothing
//
// How low a process should be is for others to say: see lifecycle.Life.Step.
//
// # The rules
//
// A priority is only ever lowered: a process that had nice 3 gets 8, 13, or SCHED_IDLE, which
// is below all nice values; never less than 3. One that has another scheduling policy (batch, or
// of real time) is left alone. It gets back exactly what it had, and that only if it is the same
// process (by its start, see process.ID) and still has what it was given here: whoever else
// changed it meanwhile has the last word.
//
// The nice value of a process is that of its main thread, so that only a process whose
// other threads do not compute is touched, and only while it serves one request.
//
// # The record
//
// Before a priority is changed it is written down in a file: which process, what it had,
// what it is to get. The file has four segments of 8 KB. Each running proxy locks one, and
// the kernel frees the lock when the proxy ends, however it ends: what stands in a segment
// that nobody holds was left behind, and is put right by the next proxy that starts, or by
// Restore. So a proxy and the one that replaces it do not meddle with each other.
//
// The write is one of 32 bytes into the page cache, and never waits for the disk: a crash
// of the process is what it is for. A crash of the machine takes all priorities with it;
// the record of another boot, or of another PID namespace, is not believed.
package priority
