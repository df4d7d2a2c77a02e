// Package h2bound bounds what one connection of HTTP/2 can make a server do. It stands
// before the server, which is net/http's, and closes a connection that floods it.
//
// # What a flood is
//
// HTTP/2 carries many requests over one connection, in frames, and has frames of its
// own to run the connection. Almost every type of frame has the server work, and costs
// the client nothing. A server that does whatever it is asked can be kept busy by one
// connection, without a request that anybody could count:
//
//   - A stream that is opened and given up at once has the server start a request for
//     nobody (rapid reset, CVE-2023-44487). The client may also have the server give it
//     up, by a frame that is not allowed there (MadeYouReset, CVE-2025-8671).
//   - PING and SETTINGS have to be acknowledged, PRIORITY is looked up, frames of types
//     unknown are read and thrown away (CVE-2019-9512, 9513, 9515).
//   - DATA and CONTINUATION may be empty, or as good as empty, so that a message never
//     ends (CVE-2019-9518, CVE-2023-45288).
//   - A window that opens by a byte has the server send a byte (CVE-2019-9511).
//
// # What is done about it
//
// A connection has a budget of each (limits.go, where each limit is argued from what
// honest clients do). Where honest use has no bound, it is earned: who was sent much
// may tell often that it has been read. So what the server sends is followed, too: of
// both directions the frames' headers are looked at (frame.go), and of what is in them
// only by how much a window grows, and why a stream is reset. No byte is changed.
// Whoever exceeds a budget (budget.go) has the connection
// closed, long before it has cost a second of CPU. Only who sends DATA in small pieces,
// as an honest stream of messages may, is read more slowly instead.
//
// Requests that are not answered are counted for all connections of an address as well
// (together.go), as a new connection has new budgets.
//
// What a request costs is not looked at here, nor how many there are: they reach the
// handler, where they are counted. Only those that are given up before their answer is
// complete are bounded here: the handler sees them too late.
//
//	conn.go    the connection
//	bounds.go  what is counted
//	limits.go  what may come too often, and how often honest clients need it
//	budget.go  so many at once, so many per second
//	together.go  what the connections of an address do
//	stream.go  which requests are under way
//	frame.go   where frames begin
package h2bound
