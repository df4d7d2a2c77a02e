// Package handover has a process go on with the listening sockets of the one before it, so
// that a restart refuses no connection.
//
// # How a process gets sockets
//
// It is started with them open, and told so by LISTEN_FDS (sd_listen_fds(3)), whoever starts
// it:
//
//   - a supervisor that listens for it, as a socket unit of systemd does;
//   - systemd, which keeps them in a [Store] while no process of the service runs;
//   - the process that runs ([Start]), which goes on until the next one serves.
//
// All processes that have a socket have the one queue of connections that wait there. A second
// socket on the same port (SO_REUSEPORT) would have a queue of its own: the connections that
// wait in the old one as it is closed are reset.
//
// # A process and its successor
//
// They talk over a pair of sockets, of which the [Successor] is the running process's end and
// the [Predecessor] the new one's:
//
//	the process that runs               the next one
//	parts: what it remembers, by name ->
//	an empty part                     ->
//	                                  <- serving
//	verdict: it is yours              ->
//
// The running process accepts connections until "serving" has come: if the next one ends
// before, nobody notices. Until the verdict has come the next one leaves alone what only one
// process can do, because the running one gives it up in between. A process that goes on
// instead says so in its verdict. One that ends without a word has left everything to the next.
package handover
