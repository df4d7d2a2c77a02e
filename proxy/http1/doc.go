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
//   - A length that is told twice and not alike, or is no plain number: who takes the
//     first one and who takes the last one disagree (CL.CL).
//   - A transfer coding other than chunked, alone and once: who does not know it looks
//     at the length (TE.TE).
//   - A name that is no token, also with a space before the colon: to some it is
//     another name, to some none.
//   - A control character in a name or a value: some end the line there.
//   - A chunk whose size is no plain number that fits 63 bits, or whose data do not end
//     where the size says: what follows would be a size to one and data to another.
//     Lines of a body end in CR LF for the same reason. Those of a head may end in LF
//     alone (RFC 9112, 2.2).
//   - Bytes after the end of an answer that nobody asked for: they would be the answer
//     to the next request.
//
// Lengths beside a transfer coding are not told on: the coding is what counts
// (RFC 9112, 6.3), and the connection is not used again. How a message that is sent
// is framed is always said anew by who sends it.
package http1
