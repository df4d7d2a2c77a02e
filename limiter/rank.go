package limiter

import "time"

// Of the rank. Facts found by simulation, not for anybody to set.
const (
	debtPrice       = 16   // how much dearer a request is at the deepest debt, less 1
	lagPrice        = 64   // the most that a client's lag counts, in costs of the request
	blame           = 0.25 // the part of its networks' and User-Agent's debt that a client bears which owes nothing
	unprovenAnswers = 4    // after which a stranger is as dear as if it were in the deepest debt
	laggingFrom     = 0.5  // CPU-seconds of lag from which a client has one express slot, not four
)

// ranking is what ranks depend on of the policy.
type ranking struct {
	memory float64 // seconds
	cpus   float64
}

// head ranks a request that has become the head of its lane, charges it with
// its guess, and puts it before the slots that it may use.
//
// The rank is the clock at which the request should be served: that of its
// arrival, and its cost by the client's share, times a price that the debt
// makes. It is fixed here, so that the clock comes to everybody who waits.
func (g *gate) head(at time.Duration, t *Ticket) {
	c := t.client
	t.lag = max(0, t.flow.tag-t.clock)
	guilt, most := t.guilt(at), lagPrice
	switch {
	case t.flow != &g.strangers:
	case t.passed:
		// It proved that it keeps cookies, and goes before those who did not. The lag of
		// all strangers it bears in part, or who learns that would be as good as known.
		most = lagPrice / 2
	default:
		// Among strangers those go first who have not been served yet: the others
		// came back, and show nothing that a person's browser would.
		guilt = max(guilt, min(1, float64(c.answers)/unprovenAnswers))
	}
	t.price = 1 + debtPrice*guilt
	e := t.guess / c.share
	t.rank = min(t.bound, t.clock+e*t.price+min(t.lag, float64(most)*e))
	t.charged, t.paid = t.guess, t.guess
	t.applied = t.flow.charge(g, t.guess)
	g.put(t)
}

// guilt is the debt that is held against the request, 0 to 1: that of its
// client, or the worst of its other keys. A client that owes nothing itself bears
// only a part of the latter, as people share networks and User-Agents with
// crawlers; also a stranger: all of a popular browser's debt would shut every
// newcomer out who has it. The guess is reserved on all keys meanwhile.
func (t *Ticket) guilt(at time.Duration) float64 {
	var own, others float64
	t.each(func(s *slot) {
		g := s.guiltAndReserve(at, t.guess)
		if s == &t.slots[0] {
			own = g
		} else {
			others = max(others, g)
		}
	})
	if own == 0 {
		others *= blame
	}
	return max(own, others)
}

// put puts the head of a lane into the heap of the slots that it may use now.
func (g *gate) put(t *Ticket) {
	t.fast = t.light && t.client.expressBusy < t.client.expressMost(t.lag)
	switch {
	case t.fresh:
		g.fresh.push(t)
	case !t.sure:
		g.unknown.push(t)
	case t.waits:
		g.waits.push(t)
	case !t.fast:
		g.heavy.push(t)
	case t.flow == &g.strangers:
		g.strange.push(t)
	default:
		g.light.push(t)
	}
}

// expressMost is how many express slots a client may use that lags so far.
func (c *client) expressMost(lag float64) int32 {
	if lag*c.share > laggingFrom {
		return 1
	}
	return expressPerClient
}

// precedes tells whether the request goes before another one.
func (t *Ticket) precedes(o *Ticket) bool {
	return t.rank < o.rank || t.rank == o.rank && t.order < o.order
}

// heads is a binary heap of lanes' heads by rank, each of which knows its place.
// container/heap would call through an interface what is called under the lock
// that all requests share.
type heads []*Ticket

func (h heads) top() *Ticket {
	if len(h) == 0 {
		return nil
	}
	return h[0]
}

func (h *heads) push(t *Ticket) {
	*h = append(*h, t)
	t.heap, t.index = h, len(*h)-1
	h.up(t.index)
}

func (h *heads) remove(t *Ticket) {
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

func (h heads) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h heads) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h[i].precedes(h[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h heads) down(i int) (moved bool) {
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
