// Package front serves HTTP/1.1 to clients, and hands connections that begin as HTTP/2
// to whoever serves that. It is the server's side of the proxy:
//
//	server.go   listeners, and the end
//	sweep.go    who has waited for too long
//	entrance.go what comes before the first request: the PROXY protocol, TLS
//	secured.go  a connection over TLS
//	turns.go    whose handshake computes
//	conn.go     one connection: request after request
//	await.go    the wait for a request
//	longhead.go how many heads may need more memory than most
//	request.go  a request, as a handler sees it
//	body.go     the request's body
//	response.go what the handler answers
//	give.go     its bytes, to the socket
//	head.go     the head of that
//	date.go     its Date
//	linger.go   the end of a connection whose client still sends
//	presence.go whether the client is still there
//	look*.go    how that is seen
//	memory.go   what a request borrows
//
// A connection has one goroutine and no other, no timer, and while it waits for a
// request no memory but what TLS keeps: what a request needs it borrows. Deadlines are set for who reads a
// body or is slow to take an answer, by the handler; a connection that waits, for a
// request or for the rest of its head, is swept. Nobody waits at the connection for its
// client to leave while a handler works: who wants to know looks (Response.Look).
package front
