// Package smockron shares limits by the Smockron protocol. Gatekeepers report to a master which requests they
// let through. If an identifier must wait, the master tells all gatekeepers until when. Both directions are
// ZeroMQ publish/subscribe. The gatekeeper opens both connections: for accounting to the master's port
// (10004 by default), and for control to the next port.
//
// A gatekeeper decides from memory and never waits for a master. Without a master, only the instance's own
// limits apply.
//
// [Gatekeeper] is a limiter.Sharer. [Wire] opens the sockets of either side, and package master makes a
// master's decisions. The messages are those of the original protocol, as implemented by its first master, its
// Node middleware and its nginx module. PROTOCOL.md describes them, with two additions: the cost of a request
// in the last frame of accounting, and RESYNC. The tests play both sides.
//
// ZeroMQ is a C library. In a program that was built without cgo, every socket fails with [ErrNoZeroMQ].
package smockron
