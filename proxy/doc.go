// Package proxy is the sidecar itself: it takes requests in, asks the limiter
// whether and when they may go to the backend, forwards them unchanged, and
// charges their keys with what they cost there.
//
// # The life of a request
//
//	server       accepts; bounds what a client can hold open before its request
//	handler      loads the Policy once: one request, one configuration
//	  classify     who is asking, which keys to charge, its standing, or exempt
//	  admit        Limiter.Arrive, then wait for the decision or for the client to leave
//	  refuse       429 or 503 in plain words; the backend never sees it
//	  forward      Meter.Begin; the backend answers through upstream
//	  settle       the meter ends; the cost replaces the guess, even after a panic
//	  hold         in cooperative mode, the end of the response is kept back
//	  finish       Limiter.Leave; a line in the journal
//
// Beside that one goroutine, Drive, tells the limiter the time: it releases
// who waits, and charges on what runs.
//
// A client that has gone gets no answer: net/http would make an empty 200 of a
// handler that just returns, so that abandon panics with http.ErrAbortHandler,
// as httputil.ReverseProxy does where a backend breaks off.
//
// # Waiting for the client
//
// Bodies pass through body and writer, which stop the meter while the client is
// slow and bound how long it may do nothing. A connection carries nothing over
// to its next request. An answer that begins before the request's body has been
// read to its end closes its HTTP/1 connection: net/http would otherwise read
// the rest itself, in place of the backend.
//
// One file for each idea:
//
//	handler.go    the story of a request
//	exchange.go   one request and its answer, and how it ended
//	policy.go     one configuration, made ready
//	driver.go     the goroutine that tells the limiter the time
//	workertrial.go how many connections the backend accepts
//	learn.go      what the CPU use and the gate tell of the backend
//	crowd.go      the sets of what waits and of what is at the backend
//	ghost.go      what the backend works on though nobody waits for it
//	upstream.go   the backend: transport, response header, failures
//	usage.go      what part of the CPUs is used
//	workerhints.go what can be seen of the backend's workers from outside
//	listenqueue.go how many connections wait until the backend accepts them
//	sockdiag*.go  the kernel's answers about listening sockets
//	fpm.go        php-fpm's number of workers, from its configuration
//	rewrite.go    a request addressed to the backend, byte for byte
//	body.go       the request's body on its way
//	writer.go     the response on its way, its tail kept back
//	refuse.go     what a client is told that is not served
//	server.go     listeners, timeouts, drain
//	socket.go     unix sockets
//	journal.go    the access log
//	totals.go     the counters
//	statlog.go    the original's log of classes that wait
//	graphite*.go  the original's series
//	admin*.go     the API that the doctor asks
//	spool/        what bodies wait in: memory, then a file without a name
package proxy
