package limiter

import (
	"time"

	"tempomat/limiter/known"
)

// flow is what a clock knows of a client, or of all strangers together; or of a site.
//
// The clock is that of generalised processor sharing (Parekh and Gallager,
// 1993): it advances by the service given, over the shares of all who want
// some. A flow's virtual time says at which clock its service so far would have been
// given if every flow had got its share at every moment; how far it is beyond
// the clock is the flow's lead, what it got ahead of the others.
type flow struct {
	virtualTime float64 // virtual CPU-seconds per unit of share
	share       float64 // of the machine; of a site, against the others
	work        int     // requests that wait or run
}

// clock is the one that some flows go by: those of a site's clients, or the sites.
type clock struct {
	systemVirtualTime float64 // virtual CPU-seconds per unit of share
	furthest          float64 // the furthest that any flow's virtual time ever was
	active            float64 // the shares of the flows with work, summed up
}

func (f *flow) enter(k *clock) {
	if f.work++; f.work == 1 {
		k.active += f.share
	}
}

// leave counts a request no more; idle says that nothing waits or runs any more in any flow.
func (f *flow) leave(k *clock, idle bool) {
	if f.work--; f.work > 0 {
		return
	}
	k.active -= f.share
	if idle {
		// Whoever got ahead took from nobody: idle, all are even again.
		k.active = 0
		k.systemVirtualTime = max(k.systemVirtualTime, k.furthest)
	}
}

// reweigh changes the flow's share.
func (f *flow) reweigh(k *clock, share float64) {
	if f.work > 0 {
		k.active += share - f.share
	}
	f.share = share
}

// charge moves the virtual time by x CPU-seconds, and returns by how much it really
// moved: lead beyond the most is forgiven.
func (f *flow) charge(k *clock, x, most float64) (moved float64) {
	from := max(f.virtualTime, k.systemVirtualTime)
	f.virtualTime = max(from, min(from+x/f.share, k.systemVirtualTime+most))
	k.furthest = max(k.furthest, f.virtualTime)
	return f.virtualTime - from
}

// serve advances the clock by x CPU-seconds of service.
func (k *clock) serve(x float64) {
	if k.active > 1e-9 {
		k.systemVirtualTime += x / k.active
	}
}

// chargeFlow charges a request's flow. It is held to be ahead by the policy's memory at most.
func (g *gate) chargeFlow(t *Ticket, x float64) (moved float64) {
	return t.flow.charge(&t.site.clock, x, g.ranking.memory*g.ranking.cpus)
}

// client is what the gate knows of a client.
type client struct {
	flow
	site      *site
	elsewhere *client // what it is at another site
	lanes     *lane   // those in which somebody waits

	first   time.Duration // when it was first seen
	answers int32         // requests that ran
	queued  int32         // in all lanes
	running int32         // at the backend
	// misjudged counts those of them that came as short ones and are not.
	misjudged int32
	known     bool          // no stranger
	asked     uint32        // what others had told when it was last looked whether they know it
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

// noteSeen sees whether a client is no stranger any more, and remembers it if so.
func (g *gate) noteSeen(at time.Duration, t *Ticket) {
	c := t.client
	if t.pooled {
		return // to be known is worth nothing to it
	}
	if learnt := g.known.Learnt(); !c.known && c.asked != learnt {
		c.asked, c.known = learnt, g.known.Has(at, t.own().Bucket.Key.ID)
	}
	if !c.known && c.answers >= strangerAnswers && at-c.first >= strangerFor {
		c.known = true
	}
	if c.known && at >= c.renew {
		c.renew = at + known.Renew // before the memory of it ends, and before others' does
		g.known.Add(at, t.own().Bucket.Key.ID)
	}
}

// client is that of a ticket's first key: a session, or a User-Agent of an address. Those that
// anybody can make up are one client.
func (g *gate) client(at time.Duration, t *Ticket) *client {
	if of := t.whole(); t.pooled && of != nil {
		c := g.owner(at, of.Bucket, t.site)
		c.home()
		return c
	}
	c := g.owner(at, t.own().Bucket, t.site)
	if t.session {
		if of := t.whole(); of != nil && (c.address == nil || g.divided && c.work == 0) {
			address := g.owner(at, of.Bucket, t.site)
			c.known, c.address = c.known || address.known, address.home()
		}
		if c.home().clientsBehind = t.clientsBehind; g.without(ruleBehind) {
			c.home().clientsBehind = 1
		}
		return c
	}
	if c.address == nil {
		c.face = t.face
	}
	home := c.home()
	if t.face == c.face || g.without(ruleFaces) {
		return c
	}
	if c.faces == nil {
		c.faces = new([faces]*client)
	}
	f := c.faces[t.face]
	if f == nil {
		f = &client{first: at, known: c.known, address: home, face: t.face, site: t.site}
		c.faces[t.face] = f
	}
	return f
}

// owner is the client of a key at a site. Who has been known before is no stranger.
func (g *gate) owner(at time.Duration, b *bucket, s *site) *client {
	c := b.Value.client.Load()
	if c == nil {
		c = &client{first: at, known: g.known.Has(at, b.Key.ID), site: s}
		b.Value.client.Store(c)
	}
	if c.site != s {
		return c.visit(s)
	}
	return c
}

// home is the client's address.
func (c *client) home() *address {
	if c.address == nil {
		c.address = &address{clientsBehind: 1}
	}
	return c.address
}

// weigh gives the client its share.
func (c *client) weigh(share float64) {
	if c.alone != share {
		c.alone = share
		c.address.reshare()
	}
}

// enterFlow counts a request of its flow.
func (t *Ticket) enterFlow(g *gate) {
	t.site.among.enter(&g.clock)
	if t.flow.enter(&t.site.clock); !t.stranger && t.flow.work == 1 {
		t.client.address.enter(t.client)
	}
}

// leaveFlow counts it no more.
func (t *Ticket) leaveFlow(g *gate) {
	if !t.stranger && t.flow.work == 1 {
		t.client.address.leave(t.client)
	}
	t.flow.leave(&t.site.clock, t.site.busy == 0 && t.site.queued == 0)
	t.site.among.leave(&g.clock, g.busy == 0 && g.all.n == 0)
}

// answered counts an answer.
func (g *gate) answered(at time.Duration, t *Ticket) {
	t.client.answers++
	g.noteSeen(at, t)
}

// address is the level above a client: an address whose sessions, or else its
// User-Agents, are clients of their own. Together they weigh as the clients that are
// behind it, so that nobody gets more of the server by more cookies.
type address struct {
	active        *client // those that wait or run, as a list
	n             int     // of them
	clientsBehind float64 // how many clients it weighs as
}

// enter takes in a client that has work again.
func (a *address) enter(c *client) {
	if c.beside = a.active; c.beside != nil {
		c.beside.beforeIt = c
	}
	a.active = c
	a.n++
	a.reshare()
}

// leave takes out a client that has no work left.
func (a *address) leave(c *client) {
	if c.beforeIt == nil {
		a.active = c.beside
	} else {
		c.beforeIt.beside = c.beside
	}
	if c.beside != nil {
		c.beside.beforeIt = c.beforeIt
	}
	c.beside, c.beforeIt = nil, nil
	a.n--
	a.reshare()
}

// reshare gives each of the clients its part.
func (a *address) reshare() {
	part := min(1, a.clientsBehind/float64(max(1, a.n)))
	for c := a.active; c != nil; c = c.beside {
		c.reweigh(&c.site.clock, c.alone*part)
	}
}

// mostElsewhere is at how many sites beside the first a client is remembered that has no work
// there.
const mostElsewhere = 3

// visit is what the client is at another site than its first. There it has a flow of its own,
// as it has its place in that site's order. Whom the gate knows, it knows at each site.
func (c *client) visit(s *site) *client {
	n := 0
	var least **client // of those without work, that whose lead is the least loss
	for p := &c.elsewhere; *p != nil; p = &(*p).elsewhere {
		x := *p
		if x.site == s {
			x.known = x.known || c.known
			return x
		}
		n++
		if x.isIdle() && (least == nil || x.lead() < (*least).lead()) {
			least = p
		}
	}
	if n >= mostElsewhere && least != nil {
		*least = (*least).elsewhere
	}
	x := &client{first: c.first, known: c.known, site: s, elsewhere: c.elsewhere}
	c.elsewhere = x
	return x
}

// lead is by how many CPU-seconds the client is ahead of its share at its site.
func (c *client) lead() float64 {
	return max(0, c.virtualTime-c.site.clock.systemVirtualTime) * c.share
}

// isIdle tells whether nothing of the client's, or of its address, waits or runs.
func (c *client) isIdle() bool {
	if c.work > 0 || c.queued > 0 || c.running > 0 || c.address != nil && c.address.n > 0 {
		return false
	}
	if c.faces != nil {
		for _, f := range c.faces {
			if f != nil && f.queued+f.running > 0 {
				return false
			}
		}
	}
	return true
}
