// Package proxy is the sidecar itself: it takes requests in, asks the limiter
// whether and when they may go to the backend, forwards them unchanged, and
// charges their keys with what they cost there.
//
// # The life of a request
//
//	server       accepts; bounds what a client can hold open before its request
//	handler      loads the Policy once: one request, one configuration
//	  classify     who is asking, which keys to charge, its standing, or exempt
//	  isSound      what backends read differently is refused; what is ours to answer
//	               (OPTIONS and TRACE that end here, robots.txt) is answered
//	  countRequest limits in requests; what is one too many is refused
//	  takesHead    room for a large header, until the request is over
//	  readAhead    the body comes, before the request asks for a place
//	  admit        Arrive, then wait for the decision or for the client to leave
//	  refuse       429 or 503, and why, or back for a newcomer's pass; 400 or 408 if the
//	               body broke off meanwhile; the backend never sees it
//	  forward      Begin; the backend answers through upstream
//	  settle       the backend has finished: the meter ends, the place is free, the
//	               cost replaces the guess
//	  hold         in cooperative mode, the end of the response is kept back
//	  finish       the client has its answer: Leave; a line in the access log
//
// What limiter, guess, meter and standing are told, and in which order, is package
// lifecycle's: it never waits, so that the simulator plays the same on virtual time.
// What is here waits, reads and writes.
//
// Beside that, one goroutine, Drive, tells the limiter the time: it releases
// who waits, charges on what runs, and notices who has left.
//
// # How an answer ends
//
// The backend's part ends once, in settle, and the client's part in finish, whatever happened:
//
//	                   the backend's part              the client's part
//	it is whole        backendDone, settle: finished   sendLast, hold
//	it breaks off      backendDone, settle: given up   requireEnd: what there is, then abort
//	the client leaves  orphan; drain reads the rest    abandon: no answer, abort
//	                   for nobody, then settle
//	it takes too long  watch cancels; linger keeps     fail: 504; nobody gets it if the client
//	                   its place until expire, or      has left
//	                   settle: given up
//	none comes         settle: given up                explain: 502, or 504
//
// A server makes an empty 200 of a handler that just returns, so that abort panics with
// http.ErrAbortHandler. That a client has gone is seen by looking: the driver looks at those
// that wait and at what runs.
//
// HTTP/1.1 is ours on both sides (front, http1, backend), as what is passed on has to
// be what was said; HTTP/2 is net/http's, behind bounds (h2bound). Both call one
// handler.
//
// # Workers and clients
//
// A backend has few workers, and a client may be as slow as it likes. So no
// worker waits for a client where that can be helped. A request's body is read
// before the request asks for a place: in memory, then in a file (package
// spool). Only one that may be live (of unknown length) goes on after a second, or
// 10 ms if it says that it is gRPC, with what is there of it. The answer is taken
// as fast as the backend gives it, and waits for the client in the same way; if it
// is small, or its client keeps up, it passes through no spool. Where there is no
// room, bodies stream: no byte is lost, but the request holds its worker, and its
// place. A request whose body still comes is counted with those that only hold a
// worker from the beginning, and is of a kind of its own.
//
// Event streams, what the backend marks by "X-Accel-Buffering: no", and
// connections after an upgrade are passed on at once and hold their place until
// they end. For the first and the last the meter of CPU time stands still, as it does
// wherever the backend waits for a client.
//
// The request to the backend does not end with its client. Who leaves early
// leaves an orphan: the backend works on, for PHP notices only when it sends
// something. So the request keeps its place and is charged until the backend
// has finished. One that breaks off its body on the way has the half of the
// backend's connection closed that requests go by: a backend that reads gives up,
// one that does not works on, and its end is seen. Up to 64 KB of the answer are read for nobody, for as long as
// the backend may take to answer; after that its connection is closed. An event
// stream ends with the next event. In mode fair a request that was given up as it took
// too long (504) keeps its place for as long again, but 10 s at most, so that a
// backend that was down has its places back when it is up.
//
// writer and body bound how long a client may do nothing. A connection carries
// nothing over to its next request. An answer that begins before the request's
// body has been read to its end closes its HTTP/1 connection.
//
// The files, in the order of the story:
//
//	server.go     listeners, how connections begin there, timeouts, drain
//	handler.go    the story of a request, from its exchange to its record
//	exchange.go   what the story is told with: an exchange and its parts, connections, Policy and Handler
//	admission.go  limits in requests, room for large headers, who is redirected in place of waiting
//	body.go       the request's body: read before the request asks for a place, and on its way
//	refuse.go     what the proxy itself answers: refusals, robots.txt, what is no request of HTTP
//	rewrite.go    a request addressed to the backend, byte for byte, and which header fields pass
//	upstream.go   the backend: how it is reached, its answer, failures
//	relay.go      the answer on its way, through a spool once its client is slow
//	writer.go     the response at the client's side, its tail kept back
//	upgrade.go    what goes both ways after an upgrade
//	orphan.go     what the backend does for a request, also though nobody waits for it, and its end
//	driver.go     the goroutine that tells the limiter the time, and what is learnt of the backend
//	bill.go       what running requests used of the CPUs, as the kernel counts it
//	priorities.go processes of long requests step down in priority
//	underway.go   those that wait, and that run: one by one, and counted
//	lowat*.go     how much of an answer the kernel keeps for a connection
//	admin/        the API that the doctor and browsers ask
//	admin/api/    what it answers
//	admin/dashboard/ the page for browsers
//	backend/      connections to the backend, and requests over them
//	certificates/ those that TLS is spoken with
//	connlimit/    how many connections clients may have open, and which is closed for the next
//	descriptors/  what is done where descriptors run out
//	errorpage/    the pages that people see where the proxy itself answers
//	front/        HTTP/1.1 with clients
//	h2bound/      what a connection of HTTP/2 may have the server do
//	handover/     listening sockets pass to the process that takes this one's place
//	http1/        the messages of HTTP/1.1
//	inspect/      why a single request waits, and what would change it
//	lifecycle/    what is decided of a request, without waiting for anything
//	nonblock/     sockets are read and written without announcing it to the runtime
//	priority/     processes of the backend are lowered in priority, and put back
//	rdns/         what addresses are called, by DNS
//	replay/       what limits would have done with the requests of a log
//	roster/       the sets of what waits, of what is at the backend, and of connections
//	shadow/       what would become of requests if what is in shadow acted
//	spool/        what bodies wait in: memory, then a file without a name
//	subscriber/   who is meant by an address
//	telemetry/    what requests add up to: counters, the access log, statistics
//	unixsocket/   how Unix sockets are opened
//	workers/      which process serves a request, and what CPU time it uses for it
package proxy
