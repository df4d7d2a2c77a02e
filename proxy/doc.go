// Package proxy handles a request from the client's connection to the end of its
// answer: it asks the limiter when the request may go to the backend, forwards it
// unchanged, and charges the client's keys with what it cost.
//
// # The life of a request
//
//	server       accepts connections and bounds what a client can hold open
//	handler      loads the Policy once: one request, one configuration
//	  classify     finds the client, the keys to charge and its standing, or that it is exempt
//	  isSound      rejects requests that backends read differently; OPTIONS, TRACE and
//	               robots.txt may be answered here
//	  countRequest rejects the request if it exceeds a limit in requests
//	  takesHead    reserves memory for large headers until the request is over
//	  readAhead    reads the body, before the request asks for a place
//	  admit        Arrive; then waits for the decision or for the client to disconnect
//	  refuse       429 or 503 with the reason, or a redirect for a newcomer's pass, or 400
//	               or 408 if the body broke off; the backend never sees the request
//	  forward      Begin; the backend answers through upstream
//	  settle       the backend has finished: the meter stops, the place is free, the
//	               measured cost replaces the guess
//	  hold         cooperative mode delays the end of the response
//	  finish       the client has its answer: Leave, and a line in the access log
//
// Package lifecycle decides what the limiter, the guess, the meter and the standing
// hear, and in which order. It never waits, so the simulator plays it on virtual time.
// Package proxy waits, reads and writes.
//
// In addition to the connections' goroutines, Drive tells the limiter the time: it starts
// waiting requests, charges running ones, and notices clients that have disconnected. Bill
// reads what the backend's processes use of the CPUs.
//
// # How an answer ends
//
// The backend's part ends once, in settle. The client's part ends in finish.
//
//	                   the backend's part              the client's part
//	complete           backendDone, settle: finished   sendLast, hold
//	breaks off         backendDone, settle: given up   requireEnd: what there is, then abort
//	client disconnects orphan; drain discards the      abandon: no answer, abort
//	                   rest, then settle
//	takes too long     watch cancels; linger keeps     fail: 504, if the client is there
//	                   the place until expire, or
//	                   settle: given up
//	no answer          settle: given up                explain: 502 or 504
//
// abort panics with http.ErrAbortHandler, because a server would make an empty 200 of a
// handler that returns.
//
// HTTP/1.1 is our own on both sides (front, http1, backend), because messages must be
// forwarded as they came. HTTP/2 is, too (front), on the frames and the HPACK of
// golang.org/x/net, because its bounds are part of it. Both call the same handler.
//
// # Workers and clients
//
// A backend has few workers, and a client may be slow. So a worker should never wait for
// a client.
//
// The request's body is read before the request asks for a place: into memory, then into
// a file (package spool). A body of unknown length may be live: after a second, or after
// 10 ms for gRPC, the request goes on with what has arrived.
//
// The answer is read as fast as the backend sends it, and is spooled if the client is
// slow. If it is small, or the client keeps up, it passes through no spool. If the spool
// is full, bodies stream: no byte is lost, but the request keeps its worker and its
// place. A request whose body is still arriving counts as one that only holds a worker,
// and is of a kind of its own.
//
// Event streams, answers with "X-Accel-Buffering: no" and upgraded connections are
// forwarded at once and keep their place until they end. For event streams and upgraded
// connections the meter of CPU time stops, as it does whenever the backend waits for a
// client.
//
// If the client disconnects, the request to the backend goes on as an orphan, because PHP
// notices a lost client only when it sends something. The orphan keeps its place and is
// charged until the backend has finished. If the client broke off its body, that half of
// the backend's connection is closed: a backend that reads gives up, and the end of any
// other is seen. Up to 64 KB of an orphan's answer are read, for as long as the backend
// may take to answer; then the connection is closed. An orphaned event stream ends with
// its next event. In mode fair a request that took too long (504) keeps its place for the
// same time again, 10 s at most, so that a backend that was down has its places back soon.
//
// writer and body bound how long a client may do nothing. A connection carries nothing
// over to its next request. If an answer begins before the request's body was read, its
// HTTP/1 connection closes afterwards.
//
// # The files, in the order of the story
//
//	server.go     listeners, timeouts, drain
//	handler.go    the story of a request
//	exchange.go   the state of a request and of its connection; Policy and Handler
//	admission.go  limits in requests, memory for headers, the redirect of newcomers
//	body.go       the request's body
//	refuse.go     what the proxy answers itself
//	rewrite.go    the request as the backend gets it
//	upstream.go   how the backend is reached, and its failures
//	relay.go      the answer's body, through a spool if the client is slow
//	writer.go     the response at the client's side
//	upgrade.go    both directions after an upgrade
//	orphan.go     the end of the backend's work, with or without a client
//	driver.go     the goroutine that tells the limiter the time
//	bill.go       CPU use of running requests, as the kernel counts it
//	priorities.go processes of long requests step down in priority
//	underway.go   lists and counts of waiting and running requests
//	lowat_*.go    how much of an answer the kernel buffers for a connection
package proxy
