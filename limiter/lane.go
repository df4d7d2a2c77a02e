package limiter

import "time"

// phase is where a request is in its life at the gate.
type phase uint8

const (
	outside   phase = iota // not come yet, or done
	queued                 // in a lane
	probing                // running, to see what its kind costs
	computing              // running, on a rung of the ladder
	holding                // running: it holds a worker and hardly computes
)

// running tells whether the request is at the backend.
func (p phase) running() bool { return p >= probing }

// queueEntry is a request's place at the gate, which guards it, but for client,
// which does not change from when the request is there until it is settled.
type queueEntry struct {
	client     *client // nil: it never came to the gate
	site       *site
	flow       *flow // whose virtual time it counts for: the client's, all strangers', or the pool's
	phase      phase
	level      level         // where it waits, or did
	rung       rung          // where it runs
	low        bool          // of the lower half of that
	ahead      bool          // its client was ahead of its share as it became head of its lane, or is a stranger
	undelayed  bool          // its site delayed nobody as it began
	stays      bool          // it holds its worker until it ends: a stream
	orphan     bool          // its client has left
	counts     bool          // its keys count it as one that waits
	stale      bool          // it waits for longer than a person does
	class      uint8         // among strangers; 0 for others
	began      time.Duration // at the backend
	beyond     bool          // it went though there was no room, as its site delays nobody
	asked      time.Duration // since when it waits, for a cap or here
	gated      time.Duration // when it came to the gate, as no cap held it any more
	paid       float64       // what its flow was charged with, CPU-seconds
	siteCharge siteCharge

	clock          float64 // its site's, as it came
	costMultiplier float64 // as it became head of its lane: baseMultiplier, more if in debt
	rank           float64 // then, once and for all: nobody is pushed back who waits; of a stranger, its place among them
	bound          float64 // most that the rank may be
	applied        float64 // how far it really moved the flow's virtual time
	order          uint64  // of arrival

	lane  *lane     // nil: it does not wait
	heap  *headHeap // nil: not the head of its lane
	index int       // there

	behind, before *Ticket // in the lane
	later, earlier *Ticket // among all that wait
}

// lane is a client's FIFO of requests of one level.
type lane struct {
	first, last *Ticket
	n           int32
	level       level
	next        *lane // of the client, or spare
}

// laneAt is the client's lane of a level. Lanes are kept for whoever needs one
// next: at most so many are in use as requests wait.
func (g *gate) laneAt(c *client, at level) *lane {
	for l := c.lanes; l != nil; l = l.next {
		if l.level == at {
			return l
		}
	}
	l := g.spare
	if l == nil {
		l = &lane{}
	} else {
		g.spare = l.next
	}
	l.level, l.next = at, c.lanes
	c.lanes = l
	return l
}

// join puts a request at the end of its lane, and tells whether it is the head.
func (g *gate) join(t *Ticket) bool {
	l := g.laneAt(t.client, t.level)
	t.lane = l
	l.n++
	if l.last == nil {
		l.first, l.last = t, t
		return true
	}
	l.last.behind, t.before, l.last = t, l.last, t
	return false
}

// leaveLane takes a request out of its lane, and its heap if it is the head. The
// next one becomes the head.
func (g *gate) leaveLane(at time.Duration, t *Ticket) {
	l := t.lane
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
	t.behind, t.before, t.lane = nil, nil, nil
	if l.first == nil {
		g.drain(t.client, l)
	}
	if t.heap == nil {
		return
	}
	t.heap.remove(t)
	if l.first != nil {
		g.enqueueHead(at, l.first)
	}
}

// drain puts an empty lane among the spare ones.
func (g *gate) drain(c *client, l *lane) {
	p := &c.lanes
	for *p != l {
		p = &(*p).next
	}
	*p = l.next
	l.next, g.spare = g.spare, l
}

// chain puts the ticket before others that were decided with it, if anybody
// waits for its decision.
func (t *Ticket) chain(others *Ticket) *Ticket {
	if t.decidedAtOnce {
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
