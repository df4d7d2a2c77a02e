// Package handover lets a process take over the listening sockets of the process before it, so that a restart
// refuses no connection.
//
// # How a process gets sockets
//
// A process starts with open sockets, and LISTEN_FDS is their number (sd_listen_fds(3)). It is started by:
//
//   - a supervisor that listens on its behalf, such as a socket unit of systemd;
//   - systemd, which keeps the sockets in a [Store] while no process of the service runs;
//   - the running process ([Start]), which continues until the next one serves.
//
// All processes that have a socket share its queue of waiting connections. A second socket on the same port
// (SO_REUSEPORT) would have its own queue, and closing the old socket would reset the connections that wait in
// its queue.
//
// # A process and its successor
//
// The two processes communicate over a pair of sockets. In the running process, the new one is the [Successor].
// In the new process, the running one is the [Predecessor]. They exchange two messages:
//
//	the running process                 the new process
//	                                  <- its process number: it serves now
//	"yours": the rest is yours now    ->
//
// The running process accepts connections until the new one has sent its number. If the new process ends before
// that, no client notices. Between the two messages the running process stops everything that only one process
// may do, such as writing the state file. The new process begins these tasks after the answer. If the running
// process continues to serve instead, it answers that it has withdrawn, and why. If it ends without an answer,
// the new process takes over everything.
package handover
