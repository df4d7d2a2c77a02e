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

// Life is the state of one request. The zero Life has not begun. The goroutine that serves the
// request calls its methods in turn. Any goroutine may call Tick, Reguess, Pause, Resume,
// Orphan, IsOrphan and Left between Arrive and Leave, and from Begin on the methods that
// measure and step: Measured, Lost, Yield, SoFar, CPUSoFar, Step, UntilStep and Foreseen. The
// fields are for reading: the serving goroutine may read all, others Who, Guess and Verdict
// after Begin.
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
	sure    bool // of Guess, on arrival
	uploads bool // its body comes while it holds its worker
	passed  bool // it brought a newcomer's pass

	orphan atomic.Bool // left is set

	mu   sync.Mutex // guards the following
	over bool       // settled
	left time.Time  // when its client left before that; zero: it is there
}

// Passed reports whether the request brought a newcomer's pass.
func (l *Life) Passed() bool { return l.passed }

// Stranger reports whether the request came to the gate and counts for all strangers
// together.
func (l *Life) Stranger() bool { return l.ticket != nil && l.ticket.Stranger() }

// Known reports whether the request came to the gate and its client is no stranger there.
func (l *Life) Known() bool { return l.ticket != nil && l.ticket.Known() }

// Ticket is its place at the limiter, from Arrive on; nil: it is exempt and has none.
func (l *Life) Ticket() *limiter.Ticket { return l.ticket }

// Spare is memory that this Life no longer needs after Leave, for another one; nil: there is
// none.
func (l *Life) Spare() *limiter.Ticket {
	if l.ticket == nil {
		return l.memory
	}
	return l.ticket.Emptied()
}

// Reuse gives it what another one spared, before it begins.
func (l *Life) Reuse(memory *limiter.Ticket) { l.memory = memory }

// leastStay is the least time for which a request that keeps its worker without computing
// counts as holding it, in the guesses for similar requests.
const leastStay = time.Second

// Kind is what the guess is based on. A request whose client is still sending its body is of a
// kind of its own: how long that takes shows nothing of the page. Otherwise a client could make
// the page look like one that holds workers.
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
