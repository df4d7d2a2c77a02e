// Package proxy handles a request from the client's connection to the end of its answer. It asks the limiter
// when the request may go to the backend, forwards it unchanged, and charges the client's keys with its cost.
//
// # The life of a request
//
//	server       accepts connections, and limits how many a client can hold open
//	handler      loads the Policy once, so that a reload can't change it during the request
//	  classify     finds the client, the keys to charge, and whether the request is exempt
//	  isSound      rejects requests that two backends could understand differently;
//	               OPTIONS and TRACE may be answered here
//	  isCircle     rejects a request that this proxy itself sent to the backend
//	  countRequest rejects the request if it exceeds a request limit
//	  takesHead    reserves memory for large headers until the request is over
//	  readAhead    reads the body, before the request asks for a place
//	  admit        calls Arrive, then waits for the decision or for the client to disconnect
//	  refuse       answers a request that never reaches the backend: 429 or 503 with the
//	               reason, a redirect with a newcomer's pass, or 400 or 408 if the client
//	               didn't send all of the body
//	  forward      calls Begin, sends the request to the backend, and passes on the answer
//	  settle       runs when the backend has finished: stops the meter, frees the place,
//	               and replaces the guess with the measured cost
//	  hold         delays the end of the response, in cooperative mode
//	  finish       runs when the client has its answer: calls Leave, and logs the request
//
// Package lifecycle calls the limiter, the guess, the meter and the standing in the right order. It never waits,
// so the simulator can run it on virtual time. Package proxy waits, reads and writes.
//
// Each connection has a goroutine. Two more goroutines serve all requests. Drive calls the limiter with the
// current time, so that the limiter starts waiting requests and charges running ones. Drive also notices
// clients that have disconnected. Bill reads the CPU time of the backend's processes.
//
// # How an answer ends
//
// A request ends twice: for the backend in settle, and for the client in finish. For each way in which an
// answer can end, the table lists the functions that run before settle and finish:
//
//	                   the backend's part              the client's part
//	complete           backendDone, settle: finished   sendLast, hold
//	breaks off         backendDone, settle: given up   requireEnd sends what has arrived,
//	                                                   then abort
//	client disconnects orphan; drain discards the      abandon sends no answer, then abort
//	                   rest; settle
//	takes too long     watch cancels; linger keeps     fail answers 504, if the client is
//	                   the place until expire, or      still connected
//	                   settle: given up
//	no answer          settle: given up                explain answers 502 or 504
//
// abort panics with http.ErrAbortHandler. If the handler returned instead, the server would send an empty 200.
//
// The packages front, http1 and backend replace net/http for HTTP/1.1, because the proxy must forward messages
// exactly as it received them. Package front also implements HTTP/2, with the frames and the HPACK of
// golang.org/x/net, because limits against floods can be enforced only inside the implementation. Requests of
// both versions go through the same handler.
//
// # Workers and clients
//
// A backend has few workers, and a client may be slow. Therefore a worker should never wait for a client.
//
// The request's body is read before the request asks for a place: into memory, then into a file (package
// spool). A client may produce a body of unknown length bit by bit, and never end it. For such a body, the
// request continues after a second (10 ms for gRPC) with the part that has arrived.
//
// The answer is read as fast as the backend sends it. If the client is slow, a spool keeps the rest of the
// answer. A small answer, or one whose client keeps up, needs no spool. If the spools are full, bodies stream:
// no byte is lost, but the request keeps its worker and its place until the client has taken the whole answer.
// A request whose body is still arriving counts as one that holds a worker without computing. Its cost is
// guessed only from earlier requests of the same kind.
//
// Event streams, answers with "X-Accel-Buffering: no" and upgraded connections are forwarded at once and keep their
// place until they end. The meter of CPU time stops for event streams and upgraded connections, and whenever the
// backend waits for a client.
//
// If the client disconnects, the request at the backend continues as an abandoned request (an orphan), because
// PHP notices a lost client only when it sends something. An orphan keeps its place and is charged until the
// backend has finished. If the client disconnected in the middle of its body, the proxy closes the sending half
// of the backend's connection. A backend that is still reading the body then gives up; any other backend
// continues to the end. The proxy reads up to 64 KB of an orphan's answer, for at most backend.timeout, and
// then closes the connection. An orphaned event stream ends with its next event. A request that took too long
// (504) probably still runs. In mode fair, it therefore keeps its place for as long again, but at most 10 s.
// This limit frees all places soon after an outage.
//
// writer and body limit how long a client may send or take nothing. A connection keeps no state of one request for
// the next. If an answer begins before the request's body was read, its HTTP/1 connection closes afterwards.
//
// # The files, in the order in which a request passes them
//
//	server.go     listeners, timeouts, drain
//	handler.go    the steps of a request, from ServeHTTP on
//	exchange.go   the state of a request and of its connection; Policy and Handler
//	admission.go  request limits, memory for headers, the redirect of newcomers
//	body.go       the request's body
//	refuse.go     what the proxy answers itself
//	rewrite.go    the request as the backend gets it
//	fields.go     which header fields pass to the other side
//	upstream.go   how the backend is reached, and its failures
//	relay.go      the answer's body, through a spool if the client is slow
//	writer.go     the response at the client's side
//	upgrade.go    both directions after an upgrade
//	orphan.go     the end of the backend's work, with or without a client
//	driver.go     the goroutine that tells the limiter the time
//	bill.go       CPU use of running requests, as the kernel counts it
//	priorities.go lowers the priority of processes that serve long requests
//	underway.go   lists and counts of waiting and running requests
package proxy
