package limiter

import "time"

// flow is what the gate's clock knows of a client, or of all strangers, or all of a pool,
// together.
//
// The clock is that of generalised processor sharing (Parekh and Gallager,
// 1993): it advances by the service given, over the shares of all who want
// some. A flow's virtual time says at which clock its service so far would have been
// given if every flow had got its share at every moment; how far it is beyond
// the clock is the flow's lead, what it got ahead of the others.
type flow struct {
	virtualTime float64 // virtual CPU-seconds per unit of share
	share       float64 // of the machine
	work        int     // requests that wait or run
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
		g.systemVirtualTime = max(g.systemVirtualTime, g.ahead)
	}
}

// reweigh changes the flow's share.
func (f *flow) reweigh(g *gate, share float64) {
	if f.work > 0 {
		g.active += share - f.share
	}
	f.share = share
}

// charge moves the virtual time by x CPU-seconds, and returns by how much it really
// moved: lead beyond the policy's memory is forgiven.
func (f *flow) charge(g *gate, x float64) (moved float64) {
	from := max(f.virtualTime, g.systemVirtualTime)
	most := g.systemVirtualTime + g.ranking.memory*g.ranking.cpus
	f.virtualTime = max(from, min(from+x/f.share, most))
	g.ahead = max(g.ahead, f.virtualTime)
	return f.virtualTime - from
}

// serve advances the clock by x CPU-seconds of service.
func (g *gate) serve(x float64) {
	if g.active > 1e-9 {
		g.systemVirtualTime += x / g.active
	}
}

// client is what the gate knows of a client.
type client struct {
	flow
	lanes *lane // those in which somebody waits

	first   time.Duration // when it was first seen
	answers int32         // requests that ran
	queued  int32         // in all lanes
	running int32         // at the backend
	// misjudged counts those of them that came as short ones and are not.
	misjudged int32
	known     bool          // no stranger
	renew     time.Duration // when to remember again that it is known
	standing  float64       // of its latest request
	alone     float64       // its share, were it the only one of its address

	address          *address
	beside, beforeIt *client // others of the address that have work
	face             uint8   // of a client without sessions: which of its User-Agents this is
	faces            *[faces]*client
}

// faces is how many User-Agents of an address are told apart.
const faces = 8

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
	if t.pooled {
		return // there may be any number of them
	}
	if !c.known && c.answers >= strangerAnswers && at-c.first >= strangerFor {
		c.known = true
	}
	if c.known && at >= c.renew {
		c.renew = at + renewKnown
		g.known.add(at, t.slots[0].bucket.key.ID)
	}
}

// client is that of a ticket's first key: a session, or a User-Agent of an address.
func (g *gate) client(at time.Duration, t *Ticket) *client {
	c := g.owner(at, t.slots[0].bucket)
	if t.session {
		if b := t.slots[1].bucket; c.address == nil && b != nil {
			address := g.owner(at, b)
			c.known, c.address = c.known || address.known, address.home()
		}
		c.home().company = t.company
		return c
	}
	if c.address == nil {
		c.face = t.face
	}
	home := c.home()
	if t.face == c.face {
		return c
	}
	if c.faces == nil {
		c.faces = new([faces]*client)
	}
	f := c.faces[t.face]
	if f == nil {
		f = &client{first: at, known: c.known, address: home, face: t.face}
		c.faces[t.face] = f
	}
	return f
}

// owner is the client of a key. Who has been known before is no stranger.
func (g *gate) owner(at time.Duration, b *bucket) *client {
	c := b.client.Load()
	if c == nil {
		c = &client{first: at, known: g.known.has(at, b.key.ID)}
		b.client.Store(c)
	}
	return c
}

// home is the client's address.
func (c *client) home() *address {
	if c.address == nil {
		c.address = &address{company: 1}
	}
	return c.address
}

// weigh gives the client its share.
func (c *client) weigh(g *gate, share float64) {
	if c.alone != share {
		c.alone = share
		c.address.reshare(g)
	}
}

// isAlone tells whether its flow is its client's alone.
func (t *Ticket) isAlone() bool { return !t.stranger && !t.pooled }

// enterFlow counts a request of its flow.
func (t *Ticket) enterFlow(g *gate) {
	if t.flow.enter(g); t.isAlone() && t.flow.work == 1 {
		t.client.address.enter(g, t.client)
	}
}

// leaveFlow counts it no more.
func (t *Ticket) leaveFlow(g *gate) {
	if t.isAlone() && t.flow.work == 1 {
		t.client.address.leave(g, t.client)
	}
	t.flow.leave(g)
}

// answered counts an answer.
func (g *gate) answered(at time.Duration, t *Ticket) {
	t.client.answers++
	g.meet(at, t)
}
