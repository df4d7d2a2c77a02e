// Package host is what this machine tells, and what is asked of it.
//
// # Of the backend as a whole
//
//	backend.go    which processes the backend has, what they use of the CPUs, and how many connections wait for it
//	apache.go     what Apache's configuration says of its workers, nginx.go and fpm.go what theirs say
//	listener.go   where it listens, and which programs listen on this machine
//	usage.go      what of the machine's CPUs is used
//
// None of that takes a right.
//
// # Of each request
//
//	tracker.go    which process serves a request, and what it uses for it
//	finder.go     from our end of a connection to the process at its other end
//	told.go       or a worker says itself which request it serves, through costsocket.go; that may be a lie
//	work.go       what a process uses for one request
//	database.go   what a database uses, and which of the requests that wait for it pay for that
//
// Found: the other end of a connection to a backend on this machine is a socket that the kernel
// knows the number of. The process has it that has a descriptor of that number; it is
// looked for only among those that hold the listening socket as well. To see the descriptors
// of another user's processes takes CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH.
//
// Told: with each request the backend gets a number that nobody can guess. A worker that sends
// it back to a Unix socket of the proxy's says "I serve that one", and the kernel says
// which process that was (SCM_CREDENTIALS). That takes no right at all, and works behind a
// web server that passes requests on.
//
// The CPU time of a process is that of a request only if it serves one at a time. One that
// has threads, that waits for connections of many clients by epoll or io_uring, or that is
// seen to serve two requests of ours at once, is left alone: those requests are estimated.
//
// Of a request that ends within some milliseconds nothing here is on the path, except that its
// number is written where workers tell ([Numbers.Next]).
//
// priority.go lowers the priority of such a process while it works on what is long, and puts it back; scheduler.go
// is how the kernel is told.
//
// # Of the proxy itself
//
//	accept.go     how many connections may be open, accepting them when no descriptor is left, and
//	              Unix sockets to listen on
//
// All of it reads through processes.go (/proc) and sockets.go (sock_diag). It runs on Linux only.
package host
