package proxy

import (
	"net/http"
	"time"

	"tempomat/classify"
	"tempomat/cpuaccount"
	"tempomat/limiter"
)

// Outcome is how a request ended.
type Outcome uint8

// The outcomes.
const (
	Answered     Outcome = iota // by the backend
	Refused                     // by the limiter
	ClientGone                  // before it was answered
	BackendDown                 // 502
	BackendSlow                 // 504, or it took as long for nobody
	BackendBroke                // it broke its answer off
	Redirected                  // a newcomer, to the same URL
)

const outcomes = int(Redirected) + 1

func (o Outcome) String() string {
	return [outcomes]string{"answered", "refused", "client gone", "backend down", "backend slow", "backend broke", "redirected"}[o]
}

// exchange is one request and its answer.
type exchange struct {
	conn    *connection
	policy  *Policy
	handler *Handler
	arrived time.Time
	request *http.Request
	writer  writer
	body    body
	link    // of running

	who       classify.Result
	counted   Counted
	uploads   bool          // its body comes while it holds its worker
	broken    chan struct{} // closed when it is seen to come to no end, while it waits; nil: it does not upload
	guess     time.Duration
	idle      time.Duration   // that it will likely hold a worker without computing
	ticket    *limiter.Ticket // nil: exempt
	verdict   limiter.Verdict
	forwarded time.Time
	span      cpuaccount.Span
	work      work

	pass     bool // it brought a newcomer's pass
	redirect bool // it is sent back for one

	outcome Outcome
	cost    time.Duration
	holdFor time.Duration // what the limiter asked for
	held    time.Duration // what the client bore
	lingers bool          // see linger
	until   time.Time     // it lingers
	id      string        // told to a client that was not served, to ask after it
}

func (h *Handler) newExchange(now time.Time, w http.ResponseWriter, r *http.Request) *exchange {
	x := serve(r)
	x.policy, x.handler, x.arrived = h.policy.Load(), h, now
	x.writer = writer{ResponseWriter: w, x: x}
	if r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0 { // HTTP/2 gives an empty one
		x.body = body{ReadCloser: r.Body, x: x, conn: http.NewResponseController(w), trailer: r.Trailer.Clone()}
		x.request.Body = &x.body
	}
	return x
}

// classify finds out who asks.
func (x *exchange) classify() {
	x.policy.Classifier.Classify(x.request, &x.who)
	if x.policy.Standing != nil && !x.who.Exempt {
		x.policy.Standing.Judge(x.arrived, x.request, &x.who)
	}
	if n := x.policy.Newcomers; n != nil {
		x.pass = n.Verify(x.arrived, x.request, &x.who)
	}
}

// kind is what the guess goes by. A request whose client is still sending its
// body is of a kind of its own: how long that takes tells nothing of the page,
// or anybody could make it pass for one that holds workers.
func (x *exchange) kind() cpuaccount.Kind {
	k := cpuaccount.Kind{
		Shape: x.who.Shape, URL: x.request.RequestURI,
		Address: x.who.Address, Known: x.who.Evidence.Proves(),
	}
	if x.uploads {
		k.Shape, k.URL = "upload "+k.Shape, "upload "+k.URL
	}
	if keys := x.who.Keys(); len(keys) > 0 {
		k.Client = keys[0].ID
	}
	return k
}

// estimate is what the backend likely has to do for the request. One whose
// client is still sending its body surely holds its worker for longer than it
// computes: that is as long as its client likes.
func (x *exchange) estimate(now time.Time) (e limiter.Estimate) {
	k := x.kind()
	e.Guess, e.Idle, e.Sure = x.handler.guess.Of(now, k)
	switch {
	case x.uploads:
		e.Idle, e.Sure = max(e.Idle, e.Guess, leastStream), true
	case !e.Sure:
		e.Running = x.handler.guess.Running(now, k)
	}
	return e
}

// abandon ends an exchange whose client has gone, without an answer: one that is
// there after all is not to take an empty one for the backend's.
func (x *exchange) abandon() {
	x.outcome = ClientGone
	panic(http.ErrAbortHandler)
}
