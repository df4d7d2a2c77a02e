package limiter

import "time"

// Of the rank. Facts found by simulation, not for anybody to set.
const (
	// baseMultiplier has cheap pages, and those of clients in good standing, go before
	// others that came before them.
	baseMultiplier = 2
	debtMultiplier = 16   // how much dearer a request is at the deepest debt
	inheritedDebt  = 0.25 // the part of its networks' and User-Agent's debt that a client bears which owes nothing
	aheadFrom      = 0.5  // CPU-seconds of lead from which a client is ahead of its share
)

// ranking is what ranks depend on of the policy.
type ranking struct {
	memory float64 // seconds
	cpus   float64
}

// levelQueue is the heads of all lanes of a level.
type levelQueue struct {
	underShare headHeap // of clients that are within their share
	overShare  headHeap // of those that had more
	strange    headHeap // of strangers, in the order in which they take their turn
	turn       float64  // the clock when the strangers' next turn began
}

func (q *levelQueue) empty() bool { return len(q.underShare)+len(q.overShare)+len(q.strange) == 0 }

// enqueueHead ranks a request that has become the head of its lane, charges it with
// its guess, and puts it before the ladder. A stranger is ranked and charged as the
// strangers' turn comes: a queue that was charged for would push its own turn away.
//
// The rank is the clock at which the request should be served: that of its
// arrival, and its cost by the client's share, times a multiplier that the debt
// makes. It is fixed here, so that the clock comes to everybody who waits.
func (g *gate) enqueueHead(at time.Duration, t *Ticket) {
	t.costMultiplier = baseMultiplier
	if owes := t.debtRatio(at, !t.stranger, g.without(ruleInherits)); !g.without(ruleDebt) {
		t.costMultiplier += debtMultiplier * owes
	}
	if t.stranger {
		t.overShare = true
	} else {
		lead, e := max(0, t.flow.virtualTime-t.clock), t.guess/t.flow.share
		t.overShare = lead*t.flow.share > aheadFrom
		if t.rank = t.clock + e*t.costMultiplier; !g.without(ruleLead) {
			t.rank += lead
		}
		g.charge(t)
	}
	g.put(t)
}

// charge charges a request's flow with its guess.
func (g *gate) charge(t *Ticket) {
	t.charged, t.paid = t.guess, t.guess
	t.applied = g.chargeFlow(t, t.guess)
}

// debtRatio is the debt that is held against the request, 0 to 1: that of its
// client, or the worst of its other keys. A client that owes nothing itself bears
// only a part of the latter, as people share networks and User-Agents with
// crawlers; also a stranger: all of a popular browser's debt would shut every
// newcomer out who has it. Those of a pool owe what all of them do. The guess may be
// reserved on all keys meanwhile.
func (t *Ticket) debtRatio(at time.Duration, reserve, whole bool) float64 {
	var own, others float64
	t.each(func(s *reservation) {
		g := s.DebtRatio(at, t.guess, reserve)
		if s == t.own() || t.pooled && s == t.whole() {
			own = max(own, g)
		} else {
			others = max(others, g)
		}
	})
	if own == 0 && !whole {
		others *= inheritedDebt
	}
	return max(own, others)
}

// put puts the head of a lane into the heap where it competes.
func (g *gate) put(t *Ticket) {
	s := t.site
	q := &s.queues[t.level]
	switch {
	case t.stranger:
		if len(q.strange) == 0 {
			q.turn = s.clock.systemVirtualTime
		}
		g.line(t)
		q.strange.push(t)
	case t.overShare:
		q.overShare.push(t)
	default:
		q.underShare.push(t)
	}
}

// precedes tells whether the request goes before another one of its heap.
func (t *Ticket) precedes(o *Ticket) bool {
	if t.class != o.class {
		return t.class < o.class
	}
	return t.rank < o.rank || t.rank == o.rank && t.order < o.order
}

// headHeap is a binary heap of lanes' heads by rank, each of which knows its place.
// container/heap would call through an interface what is called under the lock
// that all requests share.
type headHeap []*Ticket

func (h headHeap) top() *Ticket {
	if len(h) == 0 {
		return nil
	}
	return h[0]
}

func (h *headHeap) push(t *Ticket) {
	*h = append(*h, t)
	t.heap, t.index = h, len(*h)-1
	h.up(t.index)
}

func (h *headHeap) remove(t *Ticket) {
	i, last := t.index, len(*h)-1
	if i != last {
		h.swap(i, last)
	}
	(*h)[last] = nil
	*h = (*h)[:last]
	if i != last && !h.down(i) {
		h.up(i)
	}
	t.heap = nil
}

func (h headHeap) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h headHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h[i].precedes(h[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h headHeap) down(i int) (moved bool) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child].precedes(h[least]) {
				least = child
			}
		}
		if least == i {
			return moved
		}
		h.swap(i, least)
		i, moved = least, true
	}
}

// order makes a heap of it again after all ranks have changed.
func (h headHeap) order() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}
