package limiter

import "time"

// flow is what the gate's clock knows of a client, or of all strangers
// together.
//
// The clock is that of generalised processor sharing (Parekh and Gallager,
// 1993): it advances by the service given, over the shares of all who want
// some. A flow's tag says at which clock its service so far would have been
// given if every flow had got its share at every moment; how far it is beyond
// the clock is the flow's lag, what it got ahead of the others.
type flow struct {
	tag   float64 // virtual CPU-seconds per unit of share
	share float64 // of the machine
	work  int     // requests that wait or run
}

func (f *flow) enter(g *gate) {
	if f.work++; f.work == 1 {
		g.active += f.share
	}
}

func (f *flow) leave(g *gate) {
	if f.work--; f.work > 0 {
		return
	}
	g.active -= f.share
	if g.busy == 0 && g.queued == 0 {
		// Whoever got ahead took from nobody: idle, all are even again.
		g.active = 0
		g.clock = max(g.clock, g.ahead)
	}
}

// reweigh changes the flow's share.
func (f *flow) reweigh(g *gate, share float64) {
	if f.work > 0 {
		g.active += share - f.share
	}
	f.share = share
}

// charge moves the tag by x CPU-seconds, and returns by how much it really
// moved: lag beyond the policy's memory is forgiven.
func (f *flow) charge(g *gate, x float64) (moved float64) {
	from := max(f.tag, g.clock)
	most := g.clock + g.ranking.memory*g.ranking.cpus
	f.tag = max(from, min(from+x/f.share, most))
	g.ahead = max(g.ahead, f.tag)
	return f.tag - from
}

// serve advances the clock by x CPU-seconds of service.
func (g *gate) serve(x float64) {
	if g.active > 1e-9 {
		g.clock += x / g.active
	}
}

// client is what the gate knows of a client.
type client struct {
	flow
	light, heavy, waits lane

	first       time.Duration // when it was first seen
	answers     int32         // requests that ran
	queued      int32         // in all lanes
	expressBusy int32         // express slots in use
	known       bool          // no stranger
	renew       time.Duration // when to remember again that it is known
	standing    float64       // of its latest request
}

// When a stranger becomes known: it has been there for a while, and has been
// answered a few times. A client that exists for one request never does.
const (
	strangerFor     = 30 * time.Second
	strangerAnswers = 5
)

// renewKnown is how often a client is remembered that goes on coming: before the
// memory of it ends.
const renewKnown = generation / 2 * time.Second

// meet sees whether a client is no stranger any more, and remembers it if so.
func (g *gate) meet(at time.Duration, t *Ticket) {
	c := t.client
	if !c.known && c.answers >= strangerAnswers && at-c.first >= strangerFor {
		c.known = true
	}
	if c.known && at >= c.renew {
		c.renew = at + renewKnown
		g.known.add(at, t.slots[0].bucket.key.ID)
	}
}

// client is that of a ticket's first key. Who has been known before, or comes
// with a session from an address that is known, is no stranger.
func (g *gate) client(at time.Duration, t *Ticket) *client {
	b := t.slots[0].bucket
	if c := b.client.Load(); c != nil {
		return c
	}
	c := &client{first: at, known: g.known.has(at, b.key.ID)}
	if t.n > 1 && t.slots[1].bucket != nil {
		if address := t.slots[1].bucket.client.Load(); address != nil {
			c.known = c.known || address.known
		}
	}
	b.client.Store(c)
	return c
}

// answered counts an answer.
func (g *gate) answered(at time.Duration, t *Ticket) {
	t.client.answers++
	g.meet(at, t)
}
