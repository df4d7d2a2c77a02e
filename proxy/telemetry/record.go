package telemetry

import (
	"net/http"
	"time"

	"tempomat/classify"
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
	BackendSlow                 // 504, or it took that long after its client disconnected
	BackendBroke                // it broke its answer off
	Redirected                  // a newcomer, to the same URL
)

// Outcomes is how many there are.
const Outcomes = int(Redirected) + 1

func (o Outcome) String() string {
	return [Outcomes]string{"answered", "refused", "client gone", "backend down", "backend slow", "backend broke", "redirected"}[o]
}

// Group is whom a request counts among where CPU time and waiting are shown by people and
// robots.
type Group uint8

// The groups.
const (
	Stranger Group = iota // nothing is known of it
	Newcomer              // it came back with a newcomer's pass
	Known                 // it was seen for a while, or has standing
	Robot                 // it says that it is one
	Exempt                // by configuration: it is never delayed
)

// Groups is how many there are.
const Groups = int(Exempt) + 1

func (g Group) String() string {
	return [Groups]string{"strangers", "newcomers", "known", "robots", "exempt"}[g]
}

// ShownGroups are the groups in display order.
func ShownGroups() [Groups]Group { return [...]Group{Known, Newcomer, Stranger, Robot, Exempt} }

// Waiting is the waiting requests at one moment.
type Waiting struct {
	Count   [Groups]int
	Longest [Groups]time.Duration // longest wait among them
}

// Place is how many requests of a group are at the backend for a page.
type Place struct {
	Group Group
	Shape string
	Count int
}

// Record is what is known of a request that is over. It belongs to the goroutine that serves
// the request: a Recorder reads it until Note returns, and keeps only copies.
type Record struct {
	Arrived time.Time
	Request *http.Request
	Who     *classify.Result
	Verdict limiter.Verdict
	Group   Group
	Outcome Outcome
	Status  int
	Bytes   int64         // of the answer's body
	Guess   time.Duration // what it was likely to cost
	Cost    time.Duration // CPU time that it was charged with
	Told    time.Duration // of Cost, what was told of it while it ran; it may turn out to cost less
	// ToldWasted is what of Told was spent after its client had left.
	ToldWasted time.Duration
	Held       time.Duration // for how long its client was kept from the end of its answer
	// Queued is for how long it waited if it was never let go: it was refused or redirected,
	// or its client left.
	Queued time.Duration
	Orphan bool   // its client disconnected while the backend worked: the cost was wasted
	Judged bool   // the evidence for its client was looked at
	Limit  string // the request limit that refused it; empty: none did
	ID     string // to ask after it: of what is remarkable, or as a trusted proxy gave it; empty: none
	Access Access // whether it is to be logged
	Shard  uint8  // of counters, below Shards, that is best for it
}

// Recorder takes in requests that are over. Its methods are called by the goroutines that
// serve requests, concurrently: they wait for nothing.
type Recorder interface {
	// Note takes in a request that is over.
	Note(now time.Time, r *Record)
}

// Recorders are several, which are told in turn.
type Recorders []Recorder

// Note implements Recorder.
func (rs Recorders) Note(now time.Time, r *Record) {
	for _, one := range rs {
		one.Note(now, r)
	}
}

// Remarkable reports whether people are likely to ask about the request: the backend did not
// answer it, or it waited for long.
func (r *Record) Remarkable() bool { return r.Outcome != Answered || r.Delay() >= remarkable }

// Shadowed reports whether the request would have been delayed or refused by what is in
// shadow.
func (r *Record) Shadowed() bool { return r.Verdict.Shadow || r.Verdict.Would.Key.Class != "" }

// Why is why the request was delayed, refused or redirected; empty: it was not.
func (r *Record) Why() string { return why(r.Outcome, r.Verdict.Reason, r.Limit) }

// action is what was decided of the request. The limiter is not asked about what a request limit
// refuses.
func (r *Record) action() limiter.Action {
	if r.Limit != "" && r.Outcome == Refused {
		return limiter.Refuse
	}
	return r.Verdict.Action
}

func why(o Outcome, r limiter.Reason, limit string) string {
	switch {
	case limit != "":
		return "limit " + limit
	case r != limiter.None:
		return r.String()
	case o == Redirected: // before the limiter decided
		return "newcomer"
	}
	return ""
}

// Took is from the end of the request's head to the end of its answer. It returns false if that
// is unknown, or the request did not go to the backend.
func (r *Record) Took(now time.Time) (time.Duration, bool) {
	switch r.Outcome {
	case Answered, BackendDown, BackendSlow, BackendBroke:
		return now.Sub(r.Arrived), !r.Orphan
	case ClientGone, Refused, Redirected:
	}
	return 0, false
}

// Waited is how long the request waited, whatever became of it.
func (r *Record) Waited() time.Duration { return max(r.Queued, r.Delay()) }

// Delay is how long the client waited because of what its classes owe, or at the gate.
func (r *Record) Delay() time.Duration {
	if r.Verdict.Shadow || r.Verdict.Action != limiter.Go {
		return r.Held
	}
	return r.Verdict.Wait + r.Held
}
