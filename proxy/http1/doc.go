// Package http1 reads and writes the messages of HTTP/1.1 (RFC 9112), and nothing
// else: it opens no connection, starts no goroutine and reads no clock. A message is
// looked at in the buffer that it was read to.
//
// # What smuggling is
//
// A connection is bytes. Where one message ends and the next one begins, each side
// has to find out for itself, and if two that share a connection disagree, what one
// of them takes for a body is a message to the other. Between a proxy and a backend
// that is a way to get an answer to another client, or past all that the proxy
// checks. So whatever could be understood in two ways is an error here, after which
// the connection is of no use any more:
//
//   - A length that is told twice, or is no plain number: who takes the first one and who
//     takes the last one disagree (CL.CL). Answers may say it twice if it is the same: a
//     server behind the server adds its own. Requests may not.
//   - A transfer coding other than chunked, alone and once: who does not know it looks
//     at the length (TE.TE). A request that has a length beside it is refused (CL.TE,
//     TE.CL), and one of HTTP/1.0 that has chunks.
//   - A name that is no token, also with a space before the colon: to some it is
//     another name, to some none.
//   - A line of a request's head that begins with a space: to some it belongs to the line
//     before it, to some it is one of its own. In answers it becomes one with that.
//   - A control character in a name or a value: some end the line there.
//   - A request line of other than three words, one space each: some take the last word
//     for the version, some the third, and another target is served than was looked at. So
//     a target has no space, no control character and no fragment, and a version is
//     HTTP/1.x to the letter.
//   - Not exactly one host, or one with what no name of a site has: which site is asked is
//     what caches and limits go by.
//   - A chunk whose size is no plain number that fits 63 bits, or whose data do not end
//     where the size says: what follows would be a size to one and data to another.
//     Lines of a body end in CR LF for the same reason. Those of a head may end in LF
//     alone (RFC 9112, 2.2).
//   - Bytes after the end of an answer that nobody asked for: they would be the answer
//     to the next request.
//
// Lengths beside an answer's transfer coding are not told on: the coding is what counts
// (RFC 9112, 6.3), and the connection is not used again. How a message that is sent
// is framed is always said anew by who sends it.
package http1
