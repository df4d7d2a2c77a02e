package limiter

import (
	"sync"
	"sync/atomic"
	"time"

	"tempomat/limiter/account"
)

// state is where a request is in its life.
type state uint8

const (
	waiting state = iota // in a queue of the waiting room
	running              // admitted, and charged at least with its guess
	settled              // charged with its cost; its response may be held
	over                 // gone, or refused
)

// Ticket is one request in the limiter: what it asks for, the decision, its charge, and its place in
// the queue or at the backend. The goroutine that serves the request calls Arrive, Settle and Leave
// in turn; any goroutine may call Progress before Settle, and Advance at any time.
type Ticket struct {
	request
	decision
	charge
	*waitEntry // its place in the waiting room, which guards it; nil: it was never there
	queueEntry // its place at the gate, which guards it

	seen atomic.Uint32 // as what it was taken at the gate
}

// request is what is known of a request on arrival. The gate corrects its estimate under the gate's
// lock.
type request struct {
	sure          bool // the guess rests on answers
	proven        bool
	passed        bool
	session       bool // its client is one of an address
	pooled        bool // its client is one of those that anyone can make up
	follows       bool // it is for a part of the page that its client was just served
	prefetch      bool
	face          uint8
	siteName      string  // of the policy
	standing      float64 // of the client
	clientsBehind float64 // of its address
	came          time.Duration
	likelyIdle    float64 // seconds
	running       float64 // seconds
}

// decision is what is decided of a request.
type decision struct {
	decided       chan struct{} // closed when verdict stands
	decidedAtOnce bool          // decided is the closed channel that all share who never waited
	after         *Ticket       // decided with it; for the one that wakes them
	verdict       Verdict       // written before decided is closed
}

// charge is what a request is charged. While the request waits at the gate, only the gate changes
// charge and guess, under its own lock.
type charge struct {
	mu           sync.Mutex // guards the following
	state        state
	n            uint8 // reservations in use
	hasWhole     bool  // the second one is that of what its client is a part of
	guess        float64
	charged      float64              // CPU-seconds: the guess, then more as it runs
	reservations [MaxKeys]reservation // the client's first; see own and whole
}

// Decided is closed when the Verdict stands.
func (t *Ticket) Decided() <-chan struct{} { return t.decided }

// Verdict is valid once Decided is closed.
func (t *Ticket) Verdict() Verdict { return t.verdict }

// As what the gate takes a request; 0: it has not come there.
const (
	asKnown = 1 + iota
	asStranger
)

// Stranger reports whether the request came to the gate and counts for all
// strangers together. It may be called at any time.
func (t *Ticket) Stranger() bool { return t.seen.Load() == asStranger }

// Known reports whether the request came to the gate, which knows its client. It may be
// called at any time.
func (t *Ticket) Known() bool { return t.seen.Load() == asKnown }

// Emptied is the memory of a ticket, for another request's; nil: the gate, or a goroutine that
// announces its decision, may still refer to it. Call it after Leave.
func (t *Ticket) Emptied() *Ticket {
	if !t.decidedAtOnce || t.waitEntry != nil || t.client != nil {
		return nil
	}
	clear(t.reservations[:t.n])
	t.hasWhole = false
	t.verdict, t.state, t.n, t.charged = Verdict{}, waiting, 0, 0
	t.seen.Store(0)
	return t
}

// own is the reservation of the request's client; without a Bucket if that has no account.
func (t *Ticket) own() *reservation { return &t.reservations[0] }

// whole is the reservation of what the client is a part of (see Arrival); nil: there is none,
// or it has no account.
func (t *Ticket) whole() *reservation {
	if !t.hasWhole || t.reservations[1].Bucket == nil {
		return nil
	}
	return &t.reservations[1]
}

// each calls f for the reservations whose bucket is known.
func (t *Ticket) each(f func(*reservation)) {
	for i := range t.reservations[:t.n] {
		if t.reservations[i].Bucket != nil {
			f(&t.reservations[i])
		}
	}
}

// lookup finds the buckets that are known already, and says how they stand. As
// long as none of them delays the request, and it is free to go otherwise, it
// is charged with its guess.
func (t *Ticket) lookup(at time.Duration, table *table, a *Arrival, free bool, debts *[MaxKeys]debt) {
	named := a.named()
	t.n, t.hasWhole = uint8(a.keys(named)), named > 1 //nolint:gosec // at most MaxKeys
	for i := range t.n {
		r := &t.reservations[i]
		wait := table.Lookup(at, *a.key(int(i), named), r, t.guess, free)
		debts[i] = debt{r.Bucket, r.Terms, wait}
		free = free && !r.Terms.Concerns(wait)
	}
}

// enter makes the buckets that lookup did not find. It is only called for requests that are not
// refused, because refused ones must not make any.
func (t *Ticket) enter(at time.Duration, table *table, a *Arrival) {
	for i := range t.n {
		if t.reservations[i].Bucket == nil {
			table.Enter(at, *a.key(int(i), a.named()), &t.reservations[i])
		}
	}
}

// start lets a request go if there is no gate, and charges its guess. The charge counts from
// now, so its keys' earnings while it runs pay for it.
func (t *Ticket) start(at time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state, t.charged = running, t.guess
	t.each(func(s *reservation) { s.Reserve(at, t.guess) })
	if t.waitEntry != nil {
		t.verdict.Wait = at - t.arrived
	}
}

// refuse ends a request that may not go.
func (t *Ticket) refuse(at time.Duration, v Verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refuseLocked(at, v)
}

// refuseLocked ends a request that may not go.
func (t *Ticket) refuseLocked(at time.Duration, v Verdict) {
	v.Would = t.verdict.Would
	t.state, t.verdict = over, v
	t.each(func(s *reservation) {
		wait := t.atGate(at)
		if s.Bucket.Key == v.Key {
			wait = max(wait, float32(v.Wait.Seconds()))
		}
		s.Leave(at, wait)
	})
}

// atGate is for how many seconds a request has waited at the gate that waits there
// now, or was just let go; 0 if it never came there.
func (t *Ticket) atGate(at time.Duration) float32 {
	if t.client == nil {
		return 0
	}
	return float32((at - t.gated).Seconds())
}

// adjustLocked makes x CPU-seconds of what was charged so far.
func (t *Ticket) adjustLocked(at time.Duration, x float64) {
	if x != t.charged {
		c := t.changeLocked(x)
		t.each(func(s *reservation) { s.Change(at, c) })
	}
}

// changeLocked is how to make x CPU-seconds of what was charged so far.
func (t *Ticket) changeLocked(x float64) (c account.Change) {
	c.More = max(0, x-t.charged)
	if x < t.charged {
		c.Back = 1 - x/t.charged
	}
	t.charged = x
	return c
}

// Every key has an account, kept by package account. The gate stores there what it knows of the
// key.
type (
	table       = account.Table[keyAtGate]
	bucket      = account.Bucket[keyAtGate]
	reservation = account.Reservation[keyAtGate]
)

// keyAtGate is what the gate knows of a key.
type keyAtGate struct {
	client atomic.Pointer[client] // nil: the key was never a client's at the gate

	holds, orphans int32 // see workers.go; guarded by the gate
}

// Arrival is what the limiter needs to know of a request.
type Arrival struct {
	// Client is whom the request is of: an address, a session of one, a robot. The zero Key:
	// nothing is charged.
	Client Key
	// Within is what the client is a part of: of a Session its address, of one that is Pooled all
	// of these together; the zero Key: nothing that has an account.
	Within Key
	// Others are the client's networks, its User-Agent, and so on: at most MaxKeys with the two
	// above. They are not kept.
	Others []Key
	Guess  time.Duration // what it will likely cost
	// Idle is how long it will likely hold a worker of the backend without
	// computing.
	Idle time.Duration
	// Sure says that the guess rests on answers to requests of its kind. Only
	// then can it be light.
	Sure bool
	// Running is what others of its kind, that run or ran recently, have cost or held a
	// worker for at least, where the guess is not sure; zero: nothing is known.
	Running time.Duration
	// Standing multiplies the share of the client, by the evidence that it is a
	// person's browser: 1/2 to 8, and 0 is 1.
	Standing float64
	// ClientsBehind multiplies the share of a session's address: of how many clients that is. Up to 8,
	// and 0 is 1.
	ClientsBehind float64
	// Proven says that there is evidence for it at all: the client came back as no
	// stranger of a single request could, or is a robot with an account of its own.
	Proven bool
	// Passed says that the client, a stranger, kept a cookie that it was given as it
	// waited: it goes before strangers who did not.
	Passed bool
	// Session is true if the client is a session of an address.
	Session bool
	// Pooled is true if anyone can make up clients like this one, such as the name of a robot.
	// All of these together are served as one client of its share, each in turn, and as many of
	// their requests may wait as of one client.
	Pooled bool
	// Site is the name of the policy's site that the request is for; empty, or none of the
	// policy's: it is one of the others.
	Site string
	// Face tells apart whom the client is, if that is no session, by what they say they are:
	// below 8.
	Face uint8
	// Follows says that the request is for a part of a page that its client was just
	// served: it is the last that a full queue refuses.
	Follows bool
	// Prefetch is true if no person looks at the answer yet. A stranger's goes last.
	Prefetch bool
	// Memory is a ticket to reuse, from its Emptied; nil: there is none.
	Memory *Ticket
}

// named is how many of the keys stand for the client itself: the client, and what it is a part
// of. The others are networks and such.
func (a *Arrival) named() int {
	switch {
	case a.Client.Class == "":
		return 0
	case a.Within.Class == "":
		return 1
	}
	return 2
}

// keys is the number of keys that the request is charged to; the first ones are named.
func (a *Arrival) keys(named int) int {
	if named == 0 {
		return 0
	}
	return min(named+len(a.Others), MaxKeys)
}

// key is the i-th of them: first the client, then what it is a part of, then the others.
func (a *Arrival) key(i, named int) *Key {
	switch {
	case i >= named:
		return &a.Others[i-named]
	case i == 0:
		return &a.Client
	}
	return &a.Within
}

// ticket is that of the request, empty except for what it says of itself.
func (a *Arrival) ticket(at time.Duration, p *activePolicy) *Ticket {
	t := a.Memory
	if t == nil {
		t = new(Ticket)
	}
	t.request = request{
		sure: a.Sure, proven: a.Proven, passed: a.Passed, session: a.Session, pooled: a.Pooled, follows: a.Follows,
		prefetch: a.Prefetch, face: a.Face % faces, siteName: a.Site, came: at,
		standing: p.standing(a.Standing), clientsBehind: p.standing(a.ClientsBehind),
		likelyIdle: a.Idle.Seconds(), running: a.Running.Seconds(),
	}
	t.guess = a.Guess.Seconds()
	return t
}
