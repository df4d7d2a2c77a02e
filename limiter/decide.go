package limiter

import (
	"time"

	"tempomat/limiter/account"
)

// retry is the least time after which asking again is worth it.
const retry = time.Second

// debt is how a key stands as a request arrives.
type debt struct {
	bucket *bucket // nil: not known, which is as good as owing nothing
	terms  *account.Terms
	wait   time.Duration // until it owes nothing
}

// matters tells whether the key's class delays, or would if it were not in
// shadow, and the key owes something.
func (d *debt) matters() bool {
	return d.terms.Concerns(d.wait)
}

// worst keeps the longest wait.
func (d *debt) worst(e debt) {
	if e.wait > d.wait {
		*d = e
	}
}

// decide says what the debts of a request's keys mean for it, and which bucket
// it has to wait for first, if any. Classes in shadow have no part in either.
func (l *Limiter) decide(p *activePolicy, t *Ticket, debts []debt) (Verdict, *bucket) {
	var over, capped, held, shadow debt
	for _, d := range debts {
		switch {
		case !d.matters() || p.Mode == Observe:
		case d.terms.Shadow:
			shadow.worst(d)
		case d.wait > d.terms.MaxHold:
			over.worst(d)
		case d.terms.Cap:
			capped.worst(d)
		default:
			held.worst(d)
		}
	}
	v, blocking := Verdict{}, (*bucket)(nil)
	switch {
	case over.bucket != nil:
		v = over.verdict(Refuse)
	case capped.bucket != nil:
		v, blocking = l.roomFor(p, capped, func() bool { return l.room.toShedLocked(capped.bucket) == nil }), capped.bucket
	case held.bucket != nil:
		v = l.roomFor(p, held, func() bool { return t.heldLocked(0) > 0 })
	case shadow.bucket != nil:
		v = shadow.verdict(Go)
		if v.Shadow = true; v.Wait > shadow.terms.MaxHold {
			v.Action = Refuse
		}
	}
	v.Would = shadow.would()
	return v, blocking
}

// would is what the key's class would do if it were not in shadow.
func (d debt) would() (w Would) {
	if d.bucket == nil {
		return w
	}
	if w.Key, w.Wait = d.bucket.Key, d.wait; w.Wait > d.terms.MaxHold {
		w.Action = Refuse
	}
	return w
}

func (d debt) verdict(a Action) Verdict {
	v := Verdict{Action: a, Wait: d.wait, Key: d.bucket.Key, Reason: Debt}
	if a == Refuse {
		v.Wait = max(v.Wait, retry)
	}
	return v
}

// roomFor refuses a request that would have to be held if the room is full by its own doing: it would wait in
// the longest queue, or its client has responses held already. Otherwise another one makes room for it, or its
// response is not held.
func (l *Limiter) roomFor(p *activePolicy, d debt, own func() bool) Verdict {
	l.room.mu.Lock()
	refused := l.room.held >= p.MaxHeld && own()
	l.room.mu.Unlock()
	if !refused {
		return Verdict{}
	}
	v := d.verdict(Refuse)
	v.Reason = ServerFull
	return v
}

// Action is what becomes of a request.
type Action uint8

// The actions.
const (
	Go     Action = iota // forward it
	Refuse               // answer it without asking the backend
)

func (a Action) String() string {
	if a == Refuse {
		return "refuse"
	}
	return "go"
}

// Reason is why a request was delayed or refused.
type Reason uint8

// The reasons.
const (
	None       Reason = iota // it was not
	Debt                     // Verdict.Key owes CPU time
	ClientFull               // its client has as much under way as one may; never said here, but by those who bound that
	ServerFull               // as many requests are held as the server may hold
	Busy                     // the backend had no room for it
)

func (r Reason) String() string {
	switch r {
	case Debt:
		return "debt"
	case ClientFull:
		return "client full"
	case ServerFull:
		return "server full"
	case Busy:
		return "busy"
	case None:
	}
	return "none"
}

// LaneKind is whether a request waits at the gate in a lane of short ones, up to 100 ms, or of
// longer ones.
type LaneKind uint8

// The lanes.
const (
	NoLane LaneKind = iota
	Light
	Heavy
)

func (l LaneKind) String() string {
	switch l {
	case Light:
		return "light"
	case Heavy:
		return "heavy"
	case NoLane:
	}
	return ""
}

// Verdict is a decision that explains itself. The same value makes the answer
// to the client, the log line and the count.
type Verdict struct {
	// Wait is, of a request that may go, how long it waited for that (or, in
	// shadow, would have); of a refused one, how long until asking again is worth it.
	Wait time.Duration
	// Key is the one to blame, if any.
	Key    Key
	Action Action
	Reason Reason
	// Shadow says that the verdict is only told: the request goes at once.
	Shadow bool
	// Would is what the class in shadow would have done whose key owes most, beside what
	// became of the request; Would.Key is the zero Key if there is none.
	Would Would
	// Lane is the one that it took at the gate.
	Lane LaneKind
	// Own says that it was refused as Busy by its client's own doing: other requests of it
	// hold what it may hold, or have had more than its share.
	Own bool
	// Known says that its client was no stranger to the gate.
	Known bool
	// Ahead says that its client had more than its share, or is a stranger, as it came to the
	// head of its lane.
	Ahead bool
	// SiteAhead says that the other sites leave its site clearly more than its share of the
	// CPUs, as the request begins; SiteWithin that it has less than its share.
	SiteAhead, SiteWithin bool
	// Undelayed says that the gate delays nobody: it is in shadow, or only observes.
	Undelayed bool
	// CostMultiplier is by how much the gate took the request for dearer than it is, as its
	// keys owe: 2, without debt, to 18; 0 if it did not come to the gate.
	CostMultiplier float32
}

// Would is what a class in shadow would have done for the debt of a key, had the request
// been the first that it acted on: it does not know of those that it would have refused.
type Would struct {
	Key    Key
	Wait   time.Duration
	Action Action
}

// Refused tells whether the verdict keeps the request from the backend.
func (v Verdict) Refused() bool { return v.Action == Refuse && !v.Shadow }
