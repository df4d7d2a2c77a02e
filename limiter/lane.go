package limiter

import "time"

// stage is where a request is at the gate.
type stage uint8

const (
	outside stage = iota // not come yet, or done
	queued               // in a lane
	express              // running, in an express slot
	heavy                // running, in a heavy slot
	probe                // running, to see what its kind costs
	holding              // running, in no slot: it holds a worker and hardly computes, or is a long job
)

// turn is a request's place at the gate, which guards it, but for client,
// which never changes once the request is there.
type turn struct {
	client *client // nil: it never came to the gate
	flow   *flow   // whose clock tag it counts for: the client's, or all strangers'
	stage  stage
	light  bool          // of the client's light lane
	waits  bool          // of the lane of those that likely hold a worker without computing
	fresh  bool          // its kind is unknown, and nothing speaks against that it is light
	stays  bool          // it holds its worker until it ends: a stream, or a long job
	orphan bool          // its client has left
	lends  bool          // its heavy slot
	began  time.Duration // at the backend
	beyond bool          // it went though no slot was free, as the gate was open
	tries  bool          // it went beyond the workers that are known, or into those that are kept
	asked  time.Duration
	gated  time.Duration // when it came to the gate, as no cap held it any more
	trial  trial         // of whether the backend has a worker for it
	paid   float64       // what its flow was charged with, CPU-seconds

	clock   float64 // the gate's, as it came
	lag     float64 // the flow's, as it became head of its lane
	price   float64 // then: 1, more if in debt
	rank    float64 // then, once and for all: nobody is pushed back who waits
	bound   float64 // most that the rank may be
	applied float64 // how far it really moved the flow's tag
	order   uint64  // of arrival

	heap  *heads // nil: not the head of its lane
	index int    // there
	fast  bool   // it is where express slots are given out

	behind, before *Ticket // in the lane
	later, earlier *Ticket // among all that wait
	after          *Ticket // decided with it
}

// lane is a client's FIFO of requests alike: light ones, heavy ones, or those
// that hold a worker and hardly compute.
type lane struct {
	first, last *Ticket
	n           int32
}

// lane is the one that the request belongs to.
func (t *Ticket) lane() *lane {
	switch {
	case t.light:
		return &t.client.light
	case t.waits:
		return &t.client.waits
	}
	return &t.client.heavy
}

// append tells whether the request is the head.
func (l *lane) append(t *Ticket) bool {
	l.n++
	if l.last == nil {
		l.first, l.last = t, t
		return true
	}
	l.last.behind, t.before, l.last = t, l.last, t
	return false
}

func (l *lane) remove(t *Ticket) {
	l.n--
	if t.before == nil {
		l.first = t.behind
	} else {
		t.before.behind = t.behind
	}
	if t.behind == nil {
		l.last = t.before
	} else {
		t.behind.before = t.before
	}
	t.behind, t.before = nil, nil
}

// chain puts the ticket before others that were decided with it, if anybody
// waits for its decision.
func (t *Ticket) chain(others *Ticket) *Ticket {
	if t.told {
		return others
	}
	t.after = others
	return t
}

// release tells the tickets that they are decided. No lock is held.
func release(t *Ticket) {
	for t != nil {
		next := t.after // its owner may be done with it as soon as it knows
		t.after = nil
		close(t.decided)
		t = next
	}
}

// join makes one chain of two, the first of which is short.
func join(a, b *Ticket) *Ticket {
	if a == nil {
		return b
	}
	end := a
	for end.after != nil {
		end = end.after
	}
	end.after = b
	return a
}
