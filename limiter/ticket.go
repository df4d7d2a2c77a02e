package limiter

import (
	"sync"
	"sync/atomic"
	"time"

	"tempomat/limiter/account"
)

// state is the stage of a request's life.
type state uint8

const (
	waiting state = iota // in a queue of the waiting room
	running              // admitted, and charged with at least its guess
	settled              // charged with its cost; its response may be held
	over                 // it was answered, abandoned or refused
)

// Ticket is one request in the limiter: its properties, the decision, its charge, and its place in the queue
// or at the backend. The goroutine that serves the request calls Arrive, Settle and Leave, in this order. Any
// goroutine may call Progress before Settle, and Advance at any time.
type Ticket struct {
	request
	decision
	charge
	*waitEntry // its place in the waiting room, whose lock guards it; nil if it never waited there
	queueEntry // its state at the gate, whose lock guards it

	seen atomic.Uint32 // asKnown or asStranger once the request has arrived at the gate, otherwise 0
}

// request is what is known about a request when it arrives. The gate, holding its lock, may later correct the
// estimates.
type request struct {
	sure          bool // the guess is based on earlier answers
	proven        bool
	passed        bool
	session       bool // its client is a session of an address
	pooled        bool // anyone can invent its client's identity
	follows       bool // it asks for a part of a page that its client was just served
	prefetch      bool
	uploads       bool // its client is still sending the body
	face          uint8
	siteName      string  // one of the policy's sites
	standing      float64 // the client's standing
	clientsBehind float64 // how many clients are behind the address
	person        float64 // how much the client counts as a person
	came          time.Duration
	likelyIdle    float64 // seconds
	running       float64 // seconds
}

// decision is the decision about a request.
type decision struct {
	decided       chan struct{} // closed when verdict is final
	decidedAtOnce bool          // decided is the closed channel shared by all tickets that never waited
	after         *Ticket       // the next ticket in decisions
	verdict       Verdict       // written before decided is closed
}

// charge is what the request's keys are charged. While the request waits at the gate, only code that holds the
// gate's lock changes the charge and the guess.
type charge struct {
	mu           sync.Mutex // guards the fields below
	state        state
	n            uint8 // reservations in use
	hasWhole     bool  // the second reservation is for the whole to which the client belongs (Arrival.Within)
	guess        float64
	charged      float64              // CPU-seconds: the guess, and more as it runs
	reservations [MaxKeys]reservation // the client's comes first; see own and whole
}

// Decided returns a channel that is closed when the Verdict is final.
func (t *Ticket) Decided() <-chan struct{} { return t.decided }

// Verdict returns the decision. It is valid once the channel from Decided is closed.
func (t *Ticket) Verdict() Verdict { return t.verdict }

// These values say whether the gate treats a request as one of a known client. 0 means that the request
// hasn't arrived at the gate.
const (
	asKnown = 1 + iota
	asStranger
)

// Stranger reports whether the request has arrived at the gate and belongs to a stranger. Call it at any time.
func (t *Ticket) Stranger() bool { return t.seen.Load() == asStranger }

// Known reports whether the request has arrived at the gate and belongs to a known client. Call it at any time.
func (t *Ticket) Known() bool { return t.seen.Load() == asKnown }

// Emptied returns the ticket's memory for reuse by another request. It returns nil if the gate, or a goroutine
// that wakes its owner, may still refer to the ticket. Call it after Leave.
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

// own returns the reservation of the request's client. It has no Bucket if the client has no account.
func (t *Ticket) own() *reservation { return &t.reservations[0] }

// whole returns the reservation of the whole to which the client belongs (Arrival.Within). It returns nil if
// there is no such whole, or if the whole has no account.
func (t *Ticket) whole() *reservation {
	if !t.hasWhole || t.reservations[1].Bucket == nil {
		return nil
	}
	return &t.reservations[1]
}

// each calls f for the reservations that have a bucket.
func (t *Ticket) each(f func(*reservation)) {
	for i := range t.reservations[:t.n] {
		if t.reservations[i].Bucket != nil {
			f(&t.reservations[i])
		}
	}
}

// lookup finds the existing buckets of the request's keys, and fills debts with what the keys owe. If free is
// true, it also charges each bucket with the guess, until it finds one that delays the request.
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

// enter makes the buckets that lookup didn't find. Call it only for requests that aren't refused; otherwise
// refused requests could fill the table.
func (t *Ticket) enter(at time.Duration, table *table, a *Arrival) {
	for i := range t.n {
		if t.reservations[i].Bucket == nil {
			table.Enter(at, *a.key(int(i), a.named()), &t.reservations[i])
		}
	}
}

// start starts a request when there is no gate, and charges its guess. The charge counts from now on, so what
// the keys earn while the request runs reduces the debt.
func (t *Ticket) start(at time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state, t.charged = running, t.guess
	t.each(func(s *reservation) { s.Reserve(at, t.guess) })
	if t.waitEntry != nil {
		t.verdict.Wait = at - t.arrived
	}
}

// refuse ends a request that may not run.
func (t *Ticket) refuse(at time.Duration, v Verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refuseLocked(at, v)
}

// refuseLocked does what refuse does, for callers that hold t.mu or haven't shared t yet.
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

// atGate returns how many seconds a request has waited at the gate. Call it only while the request waits there
// or has just been decided. It returns 0 if the request never arrived there.
func (t *Ticket) atGate(at time.Duration) float32 {
	if t.client == nil {
		return 0
	}
	return float32((at - t.gated).Seconds())
}

// adjustLocked changes the charge to x CPU-seconds.
func (t *Ticket) adjustLocked(at time.Duration, x float64) {
	if x != t.charged {
		c := t.changeLocked(x)
		t.each(func(s *reservation) { s.Change(at, c) })
	}
}

// changeLocked sets the charge to x, and returns how the accounts must change.
func (t *Ticket) changeLocked(x float64) (c account.Change) {
	c.More = max(0, x-t.charged)
	if x < t.charged {
		c.Back = 1 - x/t.charged
	}
	t.charged = x
	return c
}

// Every key has an account in package account, in which the gate stores what it knows about the key.
type (
	table       = account.Table[keyAtGate]
	bucket      = account.Bucket[keyAtGate]
	reservation = account.Reservation[keyAtGate]
)

// keyAtGate is what the gate knows about a key.
type keyAtGate struct {
	client atomic.Pointer[client] // nil: the key was never a client at the gate

	// Held workers, those of them that are held by requests that end soon, and orphans (see workers.go). They are
	// guarded by the gate.
	holds, brief, orphans int32
}

// Arrival is what the limiter needs to know about a request when it arrives.
type Arrival struct {
	// Client is the key of the client: an address, a session of an address, or a robot. If it is the zero Key,
	// nothing is charged.
	Client Key
	// Within is the whole to which the client belongs: for a Session, its address; for a Pooled client, the
	// pool. If the whole has no account, Within is the zero Key.
	Within Key
	// Others are the keys of the client's networks, its User-Agent, and so on. Client, Within and Others
	// together may be up to MaxKeys. The limiter doesn't keep the slice.
	Others []Key
	Guess  time.Duration // what it will likely cost
	// Idle is how long it will likely hold a worker of the backend without computing.
	Idle time.Duration
	// Uploads is true if the client is still sending the body, and therefore decides how long the request holds
	// its worker.
	Uploads bool
	// Sure is true if the guess is based on answers to requests of the same kind. Only then can the request
	// count as light.
	Sure bool
	// Running is the least CPU time that other requests of this kind, running now or ended recently, have cost,
	// or the time for which they have held a worker. It is used only if Sure is false. Zero means that nothing
	// is known.
	Running time.Duration
	// Standing multiplies the client's share by 1/2 to 8, depending on how likely the client is a person's
	// browser. 0 means 1.
	Standing float64
	// ClientsBehind is how many clients are behind a session's address, 1 to 8. It limits the factor of the
	// address's share. 0 means 1.
	ClientsBehind float64
	// Person is how much the client counts as a person and not as a crawler, 0 to 1.
	Person float64
	// Proven is true if the client can't be a stranger that makes only one request: it came back in a way that
	// shows this, or it is a robot with an account of its own.
	Proven bool
	// Passed is true if the client, a stranger, sent back a cookie that it received while it waited. Its
	// requests go before those of strangers that didn't.
	Passed bool
	// Session is true if the client is a session of an address.
	Session bool
	// Pooled is true if anyone can invent clients like this one, for example by a robot's name. All such clients
	// together have the share of one client, are served in turn, and may have as many waiting requests as one
	// client.
	Pooled bool
	// Site is the name of the policy's site that the request is for. If it is empty or isn't one of the
	// policy's names, the request belongs to the site of all other requests.
	Site string
	// Face is a number below 8 that distinguishes the clients of an address that have no session. It is derived
	// from their User-Agents.
	Face uint8
	// Follows is true if the request is for a part of a page that its client was just served. A full queue
	// refuses such requests last, unless the client has many waiting.
	Follows bool
	// Prefetch is true if no person is looking at the answer yet. Among strangers, prefetches go last.
	Prefetch bool
	// Memory is the result of Emptied on another ticket, to be reused; nil if there is none.
	Memory *Ticket
}

// named returns how many keys, of Client and Within, stand for the client itself. The others stand for its
// networks and so on.
func (a *Arrival) named() int {
	switch {
	case a.Client.Class == "":
		return 0
	case a.Within.Class == "":
		return 1
	}
	return 2
}

// keys returns the number of keys that the request is charged to, including the named ones, which come first.
func (a *Arrival) keys(named int) int {
	if named == 0 {
		return 0
	}
	return min(named+len(a.Others), MaxKeys)
}

// key returns the i-th key. The order is Client, Within, Others.
func (a *Arrival) key(i, named int) *Key {
	switch {
	case i >= named:
		return &a.Others[i-named]
	case i == 0:
		return &a.Client
	}
	return &a.Within
}

// ticket makes the request's ticket, and fills in only the properties of the request.
func (a *Arrival) ticket(at time.Duration, p *activePolicy) *Ticket {
	t := a.Memory
	if t == nil {
		t = new(Ticket)
	}
	t.request = request{
		sure: a.Sure, proven: a.Proven, passed: a.Passed, session: a.Session, pooled: a.Pooled, follows: a.Follows,
		prefetch: a.Prefetch, uploads: a.Uploads, face: a.Face % faces, siteName: a.Site, came: at,
		standing: p.standing(a.Standing), clientsBehind: p.standing(a.ClientsBehind), person: a.Person,
		likelyIdle: a.Idle.Seconds(), running: a.Running.Seconds(),
	}
	t.guess = a.Guess.Seconds()
	return t
}
