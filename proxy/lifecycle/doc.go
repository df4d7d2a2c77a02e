// Package lifecycle decides what happens to one request, from arrival to end. It calls the other packages in
// the right order: the limiter, the guess of the cost, the meter of CPU time, the client's standing, and the
// redirect of newcomers. It never waits, starts no goroutine, reads no clock and uses no connection. The proxy
// can therefore run it on real time, and package sim on virtual time: a simulation runs the same code as the
// proxy.
//
// All requests to a backend have one [Shared]. Each request has a [Life], which is its state, and the [Rules]
// that were current when it arrived. The methods of a Life are called in this order:
//
//	Classify     finds the client, its standing, and whether it brought a newcomer's pass
//	WouldRefuse  reports whether the request would be rejected, before the client sends its body
//	Arrive       guesses the cost and asks the limiter for a place; Decided closes when it has decided
//	  RedirectAfter returns how long a newcomer's navigation waits before it is redirected
//	  Redirect     redirects it; only Leave follows
//	  Reguess      is called ten times a second while the request waits
//	Admitted     returns the decision: the request may go to the backend, or is rejected
//	Begin        starts the meter, when the request goes to the backend
//	  Tick         is called ten times a second while the request is at the backend
//	  Measured     takes the CPU time of the request's worker, as the kernel has counted it
//	  Step         returns how far the priority of the worker should be lowered
//	  Pause        is called when the backend waits for the client, and Resume when that ends
//	  Answered     is called when the header of the answer has arrived
//	  Stays        notes a stream, which keeps its worker but computes little
//	  Orphan       notes that the client has disconnected while the backend continues
//	Settle       is called when the backend has finished: it improves later guesses and frees the place
//	  Linger       is called instead if the proxy can't see when the backend finishes; Expire follows
//	Leave        is called when the client has its answer, or has disconnected
//
// An exempt request needs no place: after Classify comes Begin, and the limiter isn't called.
package lifecycle
