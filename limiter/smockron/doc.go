// Package smockron shares limits by the Smockron protocol. Gatekeepers report the requests that they admit to a
// master. If an identifier must wait, the master sends all gatekeepers the time until which it must wait. Both
// directions are ZeroMQ publish/subscribe. The gatekeeper opens both connections: one for accounting to the
// master's port (10004 by default), and one for control to the next port.
//
// A gatekeeper decides from memory, and never waits for a master. While there is no master, only the instance's
// own limits apply.
//
// [Gatekeeper] is a limiter.Sharer. A [Wire] opens the sockets of either side, and package master makes a
// master's decisions. The messages are those of the original protocol, as implemented by its first master, its
// Node middleware and its nginx module. There are two additions: the cost of a request in the last frame of
// accounting, and RESYNC. PROTOCOL.md describes all messages. The tests play both sides.
//
// ZeroMQ is a C library. In a program that was built without cgo, [OpenWire] returns [ErrNoZeroMQ].
package smockron
