// Package host watches this machine for the proxy: it finds the backend's processes, measures their CPU time,
// and changes their priorities.
//
// # The backend as a whole
//
//	backend.go    which processes the backend has, how much CPU time they use, and how many connections
//	              wait for them
//	apache.go     how many workers Apache's configuration allows; nginx.go and fpm.go read the other servers'
//	listener.go   at which address the backend listens, and which programs listen on this machine
//	usage.go      how much of the machine's CPUs is in use
//
// None of this needs a privilege.
//
// # A single request
//
//	tracker.go    which process serves a request, and how much CPU time it uses for the request
//	finder.go     finds the process at the other end of a connection to the backend
//	told.go       takes workers' own reports of which requests they serve; these may be false
//	costsocket.go the socket for these reports
//	work.go       how much CPU time a process uses for one request
//	database.go   how much CPU time databases use, and which waiting requests pay for it
//
// There are two ways to find the process that serves a request. In the first way, tempomat searches for it. The
// other end of a connection to a backend on this machine is a socket, whose inode the kernel reports. The
// process that serves the request has a descriptor of that socket. tempomat searches only processes that also
// have the listening socket. To see the descriptors of another user's processes, it needs CAP_SYS_PTRACE and
// CAP_DAC_READ_SEARCH.
//
// In the second way, the worker reports which request it serves. With each request, the backend gets a number
// that no client can guess. The worker sends the number to a unix socket of the proxy. The kernel adds the
// number of the process that sent the message (SCM_CREDENTIALS). This needs no privilege, and also works behind
// a web server that passes requests on.
//
// The CPU time of a process can be charged to a request only if the process serves one request at a time.
// Some processes serve several: they have threads, or wait for several clients by epoll or io_uring, or
// were found to serve two requests at once. The cost of their requests is estimated.
//
// None of this happens for requests that end within a few milliseconds, except that they get a number if
// workers can report ([Numbers.Next]).
//
// priority.go lowers the priority of a process while it works on a long request, and restores it
// afterwards. scheduler.go makes the system calls for that.
//
// # The proxy itself
//
//	accept.go     how many connections may be open, how they are accepted when no descriptor is left, and
//	              unix sockets to listen on
//
// Everything reads through processes.go (/proc) and sockets.go (sock_diag). The package runs on Linux only.
package host
