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
	Answered     Outcome = iota // the backend answered
	Refused                     // the limiter or a request limit rejected the request
	ClientGone                  // the client disconnected before the answer was complete
	BackendDown                 // the backend couldn't be reached (502)
	BackendSlow                 // the backend took too long (504, or no answer if the client had disconnected)
	BackendBroke                // the backend ended its answer too early
	Redirected                  // a newcomer was redirected to the same URL
)

// Outcomes is the number of outcomes.
const Outcomes = int(Redirected) + 1

func (o Outcome) String() string {
	return [Outcomes]string{"answered", "refused", "client gone", "backend down", "backend slow", "backend broke", "redirected"}[o]
}

// Group is the kind of client under which tables and metrics count a request.
type Group uint8

// The groups.
const (
	Stranger Group = iota // an unknown client
	Newcomer              // a client with a newcomer's pass
	Known                 // a client that was seen for a while, or that has standing
	Robot                 // a client that identifies itself as a robot
	Exempt                // a client or path that the configuration exempts, which is never delayed
)

// Groups is the number of groups.
const Groups = int(Exempt) + 1

func (g Group) String() string {
	return [Groups]string{"strangers", "newcomers", "known", "robots", "exempt"}[g]
}

// ShownGroups returns the groups in display order.
func ShownGroups() [Groups]Group { return [...]Group{Known, Newcomer, Stranger, Robot, Exempt} }

// Waiting counts the requests that wait at a moment.
type Waiting struct {
	Count   [Groups]int
	Longest [Groups]time.Duration // longest wait of each group
}

// Place counts a group's requests for one page that are at the backend.
type Place struct {
	Group Group
	Shape string
	Count int
}

// Record describes a finished request. Its memory is reused after Note returns: a Recorder must not read it
// later, and must copy what it keeps.
type Record struct {
	Arrived time.Time
	Request *http.Request
	Who     *classify.Result
	Verdict limiter.Verdict
	Group   Group
	Outcome Outcome
	Status  int
	Bytes   int64         // size of the answer's body
	Guess   time.Duration // expected CPU time
	Cost    time.Duration // CPU time charged to the client
	Told    time.Duration // part of Cost that Book.Running has already added up; may exceed Cost
	// ToldWasted is the part of Told that was spent after the client had disconnected.
	ToldWasted time.Duration
	Held       time.Duration // how long the end of the answer was held back
	// Queued is how long a request waited if it never went to the backend, because it was refused or
	// redirected, or its client disconnected.
	Queued time.Duration
	Orphan bool   // whether the client disconnected while the backend worked, so the cost was wasted
	Judged bool   // whether the client's standing was judged
	Limit  string // name of the request limit that refused the request; empty: none
	ID     string // id that people can ask about, if the request is remarkable or a trusted proxy gave one; otherwise empty
	Access Access // which requests the access log records
}

// Recorder records finished requests. It is called concurrently by the goroutines that serve requests, so it
// must not wait for anything.
type Recorder interface {
	// Note records a finished request.
	Note(now time.Time, r *Record)
}

// Recorders calls several Recorders in turn.
type Recorders []Recorder

// Note implements Recorder.
func (rs Recorders) Note(now time.Time, r *Record) {
	for _, one := range rs {
		one.Note(now, r)
	}
}

// Remarkable reports whether the request is always logged. People are likely to ask about a request that the
// backend didn't answer, or that waited for long.
func (r *Record) Remarkable() bool { return r.Outcome != Answered || r.Delay() >= remarkable }

// Shadowed reports whether a class or mode would have delayed or refused the request, but is in shadow mode.
func (r *Record) Shadowed() bool { return r.Verdict.Shadow || r.Verdict.Would.Key.Class != "" }

// Why returns why the request was delayed, refused or redirected, or an empty string if it wasn't.
func (r *Record) Why() string { return why(r.Outcome, r.Verdict.Reason, r.Limit) }

// action returns the decision about the request. A request that a request limit refused never reached the limiter.
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
	case o == Redirected: // redirected before the limiter decided
		return "newcomer"
	}
	return ""
}

// Took returns the time from the end of the headers to the end of the answer. It returns false if the
// client disconnected, or if the request didn't go to the backend.
func (r *Record) Took(now time.Time) (time.Duration, bool) {
	switch r.Outcome {
	case Answered, BackendDown, BackendSlow, BackendBroke:
		return now.Sub(r.Arrived), !r.Orphan
	case ClientGone, Refused, Redirected:
	}
	return 0, false
}

// Waited returns how long the request waited, however it ended.
func (r *Record) Waited() time.Duration { return max(r.Queued, r.Delay()) }

// Delay returns how long the client waited in the queue, or because of its classes' debt.
func (r *Record) Delay() time.Duration {
	if r.Verdict.Shadow || r.Verdict.Action != limiter.Go {
		return r.Held
	}
	return r.Verdict.Wait + r.Held
}
