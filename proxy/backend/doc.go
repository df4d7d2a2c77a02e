// Package backend asks a backend over HTTP/1.1. It is the client's side of the proxy:
//
//	pool.go      connections that wait for a request, the newest first
//	conn.go      one connection
//	alive.go     whether the backend has closed one that waits
//	talk.go      a request without a body and the beginning of its answer, at one go
//	call.go      one request after the other of one client's connection, and its end
//	roundtrip.go one request: sent, answered, asked again
//	upload.go    the request's body
//	answer.go    the answer's body, and what becomes of the connection after it
//
// The usual request, which has no body or a small one that is there, is sent and
// answered by the goroutine that asks; it needs no other. A request's memory is lent
// to it, and a connection that waits has none.
//
// # Asked again
//
// A connection that waited may be closed by the backend at any moment, also in the
// one when a request is on its way. If nothing of an answer came then, and the request
// may be repeated (RFC 9110, 9.2.2: a method that is idempotent, and no body), it is
// sent once more, over a new connection. Whether the backend has closed it
// is looked at before it is used, so that this is rare for the others, too.
package backend
