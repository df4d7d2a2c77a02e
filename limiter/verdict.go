package limiter

import "time"

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

// Lane is whether a request waits at the gate in a lane of short ones, up to 100 ms, or of
// longer ones.
type Lane uint8

// The lanes.
const (
	NoLane Lane = iota
	Light
	Heavy
)

func (l Lane) String() string {
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
	Lane Lane
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
	// Undelayed says that its site delays nobody.
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
