// Package lifecycle is the life of one request between its client and the backend, as the
// limiter, the guess, the meter, the standing and the newcomers' redirect see it: which of them
// is called when. It waits for nothing, starts no goroutine, reads no clock and knows no
// connection. So the proxy runs it on real time and package sim on virtual time, and the
// simulated code is the code that serves requests.
//
// A [Gatekeeper] is what all requests to a backend have in common, [Rules] are in force for one
// of them, and a [Life] is one request's own state. Its methods in the order of a life:
//
//	Classify     who asks, how its client stands, whether it brought a pass
//	WouldRefuse  nobody has to send a body for that
//	Arrive       the guess, and a place at the limiter; Decided closes when that stands
//	  RedirectAfter how long a newcomer's navigation waits before it is redirected
//	  Redirect     answers it so: then it only leaves
//	  Reguess      while it waits, ten times a second
//	Admitted     what was decided: it may go to the backend, or is refused
//	Begin        it goes there: the meter runs
//	  Tick         while it is there, ten times a second
//	  Measured     the kernel has counted what its worker used
//	  Step         how low the priority of the process should be that works on it
//	  Pause        the backend waits for the client, until Resume
//	  Answered     the header of the answer is there
//	  Stays        it computes no more, and keeps its worker: a stream
//	  Orphan       its client has left; the backend goes on
//	Settle       the backend has finished: the guess learns, the place is free
//	  Linger       instead of Settle: nobody sees it finish; then Expire
//	Leave        the client has its answer, or has gone
//
// An exempt request has no place at the limiter: it goes from Classify to Begin, and the steps
// of the limiter do not apply to it.
package lifecycle
