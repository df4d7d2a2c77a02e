package telemetry

import (
	"net/netip"
	"time"

	"tempomat/limiter"
)

// mostText is how many bytes of a request's target, and of its host, an Entry keeps.
const mostText = 256

// Entry is what is kept of a Record for those that add up. It holds no memory of the
// request but the strings of its keys and shape, which lie in 1 KB with those of others.
type Entry struct {
	Ended       time.Time
	Took, Delay time.Duration // from the end of the request's head; of that, waiting
	Waited      time.Duration // whatever became of it; Delay is of those that were let go
	Guess, Cost time.Duration
	Told        time.Duration // of Cost, what was told of it while it ran, by an Entry of its own
	ToldWasted  time.Duration // of that, what was spent after its client had left
	Client      netip.Addr
	Shape       string
	Method      string // of the usual ones, else empty
	Limit, ID   string // as in Record
	Group       Group
	Outcome     Outcome
	Reason      limiter.Reason
	Blame       limiter.Key // whose debt it was
	Status      int
	Orphan      bool
	Shadow      bool
	Weight      float64 // of how many requests this one stands for, at least 1

	keys         [limiter.MaxKeys]limiter.Key
	keyCount     int
	host, target text
}

// Why is as of the Record.
func (e *Entry) Why() string { return why(e.Outcome, e.Reason, e.Limit) }

// Keys are the keys that were charged. The slice is the Entry's own.
func (e *Entry) Keys() []limiter.Key { return e.keys[:e.keyCount] }

// Host is the first bytes of the request's host.
func (e *Entry) Host() string { return e.host.String() }

// Target is the first bytes of the request's target, as it came.
func (e *Entry) Target() string { return e.target.String() }

// Set makes an Entry of a Record, which stands for that many.
func (e *Entry) Set(now time.Time, r *Record, weight float64) {
	e.Ended, e.Took, e.Delay, e.Waited = now, now.Sub(r.Arrived), r.Delay(), r.Waited()
	e.Guess, e.Cost, e.Told, e.ToldWasted = r.Guess, r.Cost, r.Told, r.ToldWasted
	e.Client, e.Shape, e.Method, e.Limit, e.ID = r.Who.Client, r.Who.Shape, usual(r.Request.Method), r.Limit, r.ID
	e.Group, e.Outcome, e.Reason, e.Blame, e.Status = r.Group, r.Outcome, r.Verdict.Reason, r.Verdict.Key, r.Status
	e.Orphan, e.Shadow, e.Weight = r.Orphan, r.Verdict.Shadow, weight
	clear(e.keys[:])
	e.keyCount = copy(e.keys[:], r.Who.Keys())
	e.host.set(r.Request.Host)
	e.target.set(r.Request.RequestURI)
}

// usual is one of the methods that a request may have, as a constant: the request's own
// string would keep the memory of its whole head.
func usual(method string) string {
	for _, m := range [...]string{"GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"} {
		if m == method {
			return m
		}
	}
	return ""
}

// text is a string's first bytes.
type text struct {
	n     uint16
	bytes [mostText]byte
}

func (t *text) set(s string)   { t.n = uint16(copy(t.bytes[:], s)) } //nolint:gosec // at most mostText
func (t *text) String() string { return string(t.bytes[:t.n]) }
