package lifecycle

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"tempomat/classify"
	"tempomat/classify/standing"
	"tempomat/cpuaccount"
	"tempomat/limiter"
)

// Life is the state of one request. The zero Life has not begun. The goroutine that serves the request calls
// the methods, one at a time. Any goroutine may call Tick, Reguess, Pause, Resume, Orphan, IsOrphan and Left
// between Arrive and Leave, and after Begin also Measured, Lost, Yield, SoFar, CPUSoFar, Step, UntilStep and
// Foreseen. The fields are read-only. The serving goroutine may read all of them. Other goroutines may read
// only Who, Guess and Verdict, and only after Begin.
type Life struct {
	Who     classify.Result
	Guess   time.Duration // likely cost of the request
	Verdict limiter.Verdict
	Cost    time.Duration // cost; known when the request is settled or lingers
	HoldFor time.Duration // how long to hold the end of the answer; known when the request is settled

	gate    *Shared
	rules   *Rules
	request *http.Request
	visit   standing.Visit
	came    time.Time
	kind    cpuaccount.Kind // Kind, with its hashes; set by Arrive
	idle    time.Duration   // how long the request will likely hold a worker without computing
	ticket  *limiter.Ticket
	memory  *limiter.Ticket // spare memory for ticket; see Reuse
	span    cpuaccount.Span
	sure    bool // whether Guess was sure when the request arrived
	uploads bool // whether the client sends the body while the request holds its worker
	passed  bool // whether the request brought a newcomer's pass

	orphan atomic.Bool // whether left is set

	mu   sync.Mutex // guards the fields below
	over bool       // whether the request is settled
	left time.Time  // when the client disconnected while the backend worked; zero: it didn't
}

// Passed reports whether the request brought a newcomer's pass.
func (l *Life) Passed() bool { return l.passed }

// Known reports whether the request has reached the gate and its client isn't a stranger.
func (l *Life) Known() bool { return l.ticket != nil && l.ticket.Known() }

// Ticket returns the request's Ticket from the limiter, or nil if it is exempt. Call it only after Arrive.
func (l *Life) Ticket() *limiter.Ticket { return l.ticket }

// Spare returns memory that another Life may reuse after Leave, or nil.
func (l *Life) Spare() *limiter.Ticket {
	if l.ticket == nil {
		return l.memory
	}
	return l.ticket.Emptied()
}

// Reuse gives the Life, which must not have begun, memory from Spare.
func (l *Life) Reuse(memory *limiter.Ticket) { l.memory = memory }

// leastStay is the shortest time that a request is guessed to hold a worker without computing, if it is guessed
// to do so at all.
const leastStay = time.Second

// Kind is the kind of request that the guess is based on. Requests that open a form are separate from those
// that submit it, which often cost much more. All methods except GET and HEAD are one kind; otherwise a client
// could invent kinds. Requests whose clients are still sending their bodies are also separate, because
// the time that sending takes doesn't depend on the page. Otherwise a client could make the page look like one
// that holds workers.
func (l *Life) Kind() cpuaccount.Kind {
	k := cpuaccount.Kind{
		Site: l.Who.Site, Shape: l.Who.Shape, URL: l.request.RequestURI,
		Address: l.Who.Address, Known: l.Who.Evidence.Proves(), Uploads: l.uploads,
		Sends: l.request.Method != http.MethodGet && l.request.Method != http.MethodHead,
	}
	if keys := l.Who.Keys(); len(keys) > 0 {
		k.Client = keys[0].ID
	}
	return k
}

// estimate returns the likely cost of the request, according to the Estimator's method Of or Ask. While the client
// is still sending the body, the estimate always includes time in which the request holds its worker without
// computing, because the client decides how long sending takes.
func (l *Life) estimate(now time.Time, guess func(time.Time, cpuaccount.Kind) (cost, idle time.Duration, sure bool)) (e limiter.Estimate) {
	e.Guess, e.Idle, e.Sure = guess(now, l.kind)
	switch {
	case l.uploads:
		e.Idle = max(e.Idle, e.Guess, leastStay)
	case !e.Sure:
		e.Running = l.gate.Guess.Running(now, l.kind)
	}
	return e
}
