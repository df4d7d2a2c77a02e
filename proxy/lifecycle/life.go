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

// Life is one request's. The zero Life has not begun. Whoever serves the request
// calls its methods in turn; Tick, Reguess, Pause, Resume, Orphan, IsOrphan and Left
// may be called next to that by anybody, between Arrive and Leave, and from Begin on what
// measures and steps: Measured, Lost, Yield, SoFar, CPUSoFar, Step, UntilStep and
// Foreseen. The fields are for reading: who serves the request may read them, and others
// Who, Guess and Verdict once Begin was called.
type Life struct {
	Who     classify.Result
	Guess   time.Duration // what it will likely cost
	Verdict limiter.Verdict
	Cost    time.Duration // once it is settled, or lingers
	HoldFor time.Duration // once it is settled: how long to hold the end of its answer

	gate    *Gatekeeper
	rules   *Rules
	request *http.Request
	visit   standing.Visit
	came    time.Time
	idle    time.Duration // that it will likely hold a worker without computing
	ticket  *limiter.Ticket
	memory  *limiter.Ticket // see Reuse
	span    cpuaccount.Span
	sure    bool // of Guess, as it arrived
	uploads bool // its body comes while it holds its worker
	passed  bool // it brought a newcomer's pass

	orphan atomic.Bool // left is set

	mu   sync.Mutex // guards the following
	over bool       // settled
	left time.Time  // when its client left before that; zero: it is there
}

// Passed tells whether the request brought a newcomer's pass.
func (l *Life) Passed() bool { return l.passed }

// Stranger tells whether the request came to the gate and counts for all strangers
// together.
func (l *Life) Stranger() bool { return l.ticket != nil && l.ticket.Stranger() }

// Known tells whether the request came to the gate and its client is no stranger there.
func (l *Life) Known() bool { return l.ticket != nil && l.ticket.Known() }

// Ticket is its place at the limiter, from Arrive on; nil: it has none, as it is exempt.
func (l *Life) Ticket() *limiter.Ticket { return l.ticket }

// Spare is memory for another Life that this one does not need any more, as it has left; nil:
// there is none.
func (l *Life) Spare() *limiter.Ticket {
	if l.ticket == nil {
		return l.memory
	}
	return l.ticket.Emptied()
}

// Reuse gives it what another one spared, before it begins.
func (l *Life) Reuse(memory *limiter.Ticket) { l.memory = memory }

// leastStay is how long a request that keeps its worker though it does not compute
// holds it at least, as far as anybody who asks for the like of it is concerned.
const leastStay = time.Second

// Kind is what the guess goes by. A request whose client is still sending its
// body is of a kind of its own: how long that takes tells nothing of the page,
// or anybody could make it pass for one that holds workers.
func (l *Life) Kind() cpuaccount.Kind {
	k := cpuaccount.Kind{
		Site: l.Who.Site, Shape: l.Who.Shape, URL: l.request.RequestURI,
		Address: l.Who.Address, Known: l.Who.Evidence.Proves(),
	}
	if l.uploads {
		k.Shape, k.URL = "upload "+k.Shape, "upload "+k.URL
	}
	if keys := l.Who.Keys(); len(keys) > 0 {
		k.Client = keys[0].ID
	}
	return k
}

// estimate is what the backend likely has to do for the request. One whose
// client is still sending its body surely holds its worker for longer than it
// computes: that is as long as its client likes.
func (l *Life) estimate(now time.Time) (e limiter.Estimate) {
	k, guess := l.Kind(), l.gate.Guess
	e.Guess, e.Idle, e.Sure = guess.Of(now, k)
	switch {
	case l.uploads:
		e.Idle, e.Sure = max(e.Idle, e.Guess, leastStay), true
	case !e.Sure:
		e.Running = guess.Running(now, k)
	}
	return e
}
