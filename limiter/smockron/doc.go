// Package smockron shares limits in the way of Smockron: gatekeepers report to a master what
// they let through, and the master sends all of them the time until which an identifier must
// wait. Both directions are ZeroMQ publish/subscribe, and both connections are made by the
// gatekeeper: accounting to the master's port (10004 if none is given), control from the one
// above.
//
// A gatekeeper decides from memory and never waits for a master. Without one, only the
// sidecar's own limits apply.
//
// [Gatekeeper] is a limiter.Sharer. [Wire] is a master's end; what a master decides is
// in package master. The messages are those of the protocol text, as its first master,
// its Node middleware and its nginx module speak them; PROTOCOL.md has them in full,
// with what is added here: the cost of a request in the accounting's last frame, and
// RESYNC. The tests play both ends.
//
// ZeroMQ is a C library. A program that is built without cgo has [ErrNoZeroMQ] for
// every socket.
package smockron
