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
	BackendSlow                 // 504
	BackendBroke                // it broke its answer off
)

const outcomes = int(BackendBroke) + 1

func (o Outcome) String() string {
	return [outcomes]string{"answered", "refused", "client gone", "backend down", "backend slow", "backend broke"}[o]
}

// exchange is one request and its answer.
type exchange struct {
	conn    *connection
	policy  *Policy
	arrived time.Time
	request *http.Request
	writer  writer
	body    body
	link    // of running

	who     classify.Result
	guess   time.Duration
	ticket  *limiter.Ticket // nil: exempt
	verdict limiter.Verdict
	span    cpuaccount.Span

	outcome Outcome
	cost    time.Duration
	holdFor time.Duration // what the limiter asked for
	held    time.Duration // what the client bore
	id      string        // told to a client that was not served, to ask after it
}

func newExchange(p *Policy, now time.Time, w http.ResponseWriter, r *http.Request) *exchange {
	x := serve(r)
	x.policy, x.arrived = p, now
	x.writer = writer{ResponseWriter: w, x: x}
	if r.Body != nil && r.Body != http.NoBody {
		x.body = body{ReadCloser: r.Body, x: x, conn: http.NewResponseController(w)}
		x.request.Body = &x.body
	}
	return x
}

// abandon ends an exchange whose client has gone, without an answer: one that is
// there after all is not to take an empty one for the backend's.
func (x *exchange) abandon() {
	x.outcome = ClientGone
	panic(http.ErrAbortHandler)
}
