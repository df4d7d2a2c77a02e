// Package workers finds out which process of this machine serves a request, and what CPU
// time it uses for it.
//
//	descriptors.go whose descriptors a process has, and whether it serves many at once
//	finder.go    from our end of a connection to the process at its other end
//	told*.go     or a worker says itself which request it serves
//	opened.go    the files of processes that are looked at often
//	seat.go      where a connection to the backend ends
//	claims.go    what was told, of which anything may be a lie
//	work.go      what a process uses for one request
//	database.go  what a database uses, for those who wait for it
//	askers.go    which processes do
//	share.go     what of that each of them pays for
//	gone.go      whose process serves others already
//	tracker.go   all of it, for the requests that run
//
// # Found
//
// The other end of a connection to a backend on this machine is a socket that the kernel
// knows the number of. The process has it that has a descriptor of that number; it is
// looked for among those only that hold the listening socket, too. To see the descriptors
// of another user's processes takes CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH.
//
// # Told
//
// With each request the backend gets a number that nobody can guess. A worker that sends
// it back to a Unix socket of the proxy's says "I serve that one", and the kernel says
// which process that was (SCM_CREDENTIALS). That takes no right at all, and works behind a
// web server that passes requests on.
//
// # One at a time
//
// The CPU time of a process is that of a request only if it serves one at a time. One that
// has threads, that waits for connections of many clients by epoll or io_uring, or that is
// seen to serve two requests of ours at once, is left alone: those requests are estimated.
//
// Of a request that ends within some milliseconds nothing here is on the path, but that its
// number is written where workers tell ([Numbers.Next]).
package workers
