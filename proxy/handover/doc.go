// Package handover passes the listening sockets of a process on to the one that takes
// its place, so that a restart refuses no connection.
//
// The descriptors themselves are passed, over a unix socket (SCM_RIGHTS, unix(7)), as
// HAProxy and Envoy do. Both processes then have the same socket, with the one queue of
// connections that wait to be accepted. A second socket on the same port (SO_REUSEPORT)
// would have a queue of its own: who waits in the old one as it is closed gets a reset.
//
// # The conversation
//
// The [Taker] is the new process, the [Giver] the one that runs.
//
//	Taker                              Giver
//	POST /v1/replace             ->
//	                             <-    101 Switching Protocols
//	take: version                ->
//	                             <-    offer: its process, its sockets, and their descriptors
//	                             <-    parts: what it remembers, by name
//	                             <-    end
//	serving: the sockets it keeps ->
//	                             <-    yours
//
// Each message is a line of JSON, and a part's data follow its line. The sockets of the
// Giver are open, and accept, until "serving" has come: whatever becomes of the Taker
// before, nobody notices. Until "yours" has come the Taker leaves alone what only one
// process can do: the Giver gives it up in between. A Giver that will not, or that has
// waited too long, says "withdrawn" and goes on for good. One that ends without a word
// has left everything to the Taker.
//
// # Where no process runs
//
// A service that is started anew has nobody to hand its sockets to. The [Keeper] is its
// service manager, which keeps them in between.
//
// # Who may ask
//
// A process of the same user, or of root: the kernel says who it is (SO_PEERCRED), so
// that it does not matter who may connect. Either side checks the other one.
package handover
