package limiter

import (
	"container/heap"
	"time"

	"tempomat/limiter/known"
)

// flow is what a clock knows of a client, or of all strangers together; or of a site.
//
// The clock is that of generalised processor sharing (Parekh and Gallager, 1993): it advances
// by the service given, divided by the shares of all clients with work. A flow's virtual time
// is the clock at which its service so far would have been given if every flow had got its
// share at every moment; its distance beyond the clock is the flow's lead, what it got ahead of
// the others.
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
		// While all are idle, no lead has cost another client anything: all are even again.
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
	lanes     *lane   // lanes with a waiting request

	first   time.Duration // when it was first seen
	answers int32         // requests that ran
	queued  int32         // in all lanes
	running int32         // at the backend
	// misjudged counts those of them that came as short ones and are not.
	misjudged int32
	known     bool          // no stranger
	asked     uint32        // known.Clients.Learnt when it was last looked up there
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
// anyone can make up are one client.
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

// owner is the client of a key at a site. A client that was known before is no stranger.
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

// address is the level above a client: an address whose sessions, or otherwise its User-Agents,
// are clients of their own. Together they weigh as much as the clients behind it, so more
// cookies don't get more of the server.
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

// mostElsewhere is at how many sites next to the first a client is remembered that has no work
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

// isIdle reports whether nothing of the client's, or of its address, waits or runs.
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

// Constants of the rank, found by simulation. Operators have no setting for them.
const (
	// baseMultiplier has cheap pages, and those of clients in good standing, go before
	// others that came before them.
	baseMultiplier = 2
	debtMultiplier = 16   // how much more expensive a request is at the deepest debt
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
	strange    headHeap // strangers' heads, in the order of their turns
	turn       float64  // the clock when the strangers' next turn began
}

func (q *levelQueue) empty() bool { return len(q.underShare)+len(q.overShare)+len(q.strange) == 0 }

// enqueueHead ranks a request that has become the head of its lane, charges it with
// its guess, and puts it before the ladder. A stranger is ranked and charged as the
// strangers' turn comes: a queue that was charged for would push its own turn away.
//
// The rank is the clock at which the request should be served: the clock at its arrival, plus
// its cost over the client's share, times a multiplier that follows from debt. It is fixed
// here, so the clock reaches every waiting request.
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

// debtRatio is the debt that is held against the request, 0 to 1: that of its client, or the
// worst of its other keys. A client that owes nothing itself bears only a part of the latter,
// because people share networks and User-Agents with crawlers. The same applies to strangers:
// the whole debt of a popular browser would shut out every newcomer that uses it. Members of a
// pool owe what all of them owe. The guess may already be reserved on all keys.
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

// precedes reports whether the request goes before another one of its heap.
func (t *Ticket) precedes(o *Ticket) bool {
	if t.class != o.class {
		return t.class < o.class
	}
	return t.rank < o.rank || t.rank == o.rank && t.order < o.order
}

// headHeap is a heap of lanes' heads by rank, for container/heap. Each head stores its index.
type headHeap []*Ticket

func (h headHeap) top() *Ticket {
	if len(h) == 0 {
		return nil
	}
	return h[0]
}

func (h *headHeap) push(t *Ticket)   { heap.Push(h, t) }
func (h *headHeap) remove(t *Ticket) { heap.Remove(h, t.index) }

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (h headHeap) Len() int           { return len(h) }
func (h headHeap) Less(i, j int) bool { return h[i].precedes(h[j]) }

func (h headHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *headHeap) Push(x any) {
	t := x.(*Ticket) //nolint:forcetypeassert // it is of these
	t.heap, t.index = h, len(*h)
	*h = append(*h, t)
}

func (h *headHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	t.heap = nil
	return t
}

// All unknown clients are one flow: a crawler with a new address for each request competes with
// itself. However many known clients there are, the strangers together get at least a third of
// the machine if they want it: half as much as all others.
//
// The turn belongs to the flow, and its owner is chosen when the turn comes. When more arrive
// than can be served, the first to arrive have already left, so the newest takes the turn.
// Facebook (adaptive LIFO, "Fail at Scale", ACM Queue 2015) found the same. Until then, while
// every stranger is served within a person's patience, strangers are served in order of
// arrival.
type strangers struct {
	flow
	noCredit bool          // a test switched that off
	newest   bool          // first
	newestTo time.Duration // until then, unless another stranger runs out of patience
}

const (
	// patience is how long a person waits before the wait is all that counts; and how long light requests are
	// not given more room than others after one of them was found not to be light.
	patience = time.Second
	// impatientFor is how long the newest goes first after a stranger lost patience.
	impatientFor = 5 * time.Second
	// leastStrangers is the least share of the machine that strangers have together.
	leastStrangers = 0.5
	// othersPart is the part of all others' shares that they have at least.
	othersPart = 0.5
	// strangersCredit is the most that counts of what they had less than their share, in
	// costs of a request.
	strangersCredit = 4
)

// reshare follows the shares of those who are known.
func (s *strangers) reshare(of *site, leastOnly bool) {
	others := of.clock.active
	if s.work > 0 {
		others -= s.share
	}
	share := leastStrangers
	if !leastOnly {
		share = max(share, othersPart*others)
	}
	s.reweigh(&of.clock, share)
}

// order is whose turn it is among strangers who wait at different levels: as if those
// of a level were one client whose next request came at q.turn. So each level gets its
// part of what strangers have, and the shortest do not take all of it.
func (s *strangers) order(of *site, q *levelQueue, t *Ticket) float64 {
	e := t.guess / s.share
	return s.turn(of, q, e) + e*t.costMultiplier
}

// rank is that of a stranger among all others.
func (s *strangers) rank(of *site, q *levelQueue, t *Ticket) float64 {
	return s.order(of, q, t) + s.lead(of)
}

// lead is what strangers have had beyond their share.
func (s *strangers) lead(of *site) float64 {
	return max(0, s.virtualTime-of.clock.systemVirtualTime)
}

// turn is when the turn of a level began. What they got less than their share counts for a few
// requests only: known clients must not wait until a flood has made up what it missed.
func (s *strangers) turn(of *site, q *levelQueue, e float64) float64 {
	if s.noCredit {
		return q.turn
	}
	return max(q.turn, of.clock.systemVirtualTime-strangersCredit*e)
}

// went moves the turn on as a stranger takes it, by its part of the service.
func (q *levelQueue) went(t *Ticket) {
	s := t.site
	e := t.guess / s.strangers.share
	q.turn = min(s.clock.systemVirtualTime, s.strangers.turn(s, q, e)+e)
}

// classOf orders strangers; within a class, arrival decides. A stranger that returned with a
// cookie, or asks for the parts of its page, has shown that it makes more than a single
// request.
func (g *gate) classOf(t *Ticket) (class uint8) {
	if t.prefetch {
		class |= 1 << 7
	}
	if !(t.passed && !g.without(rulePassed)) && !(t.follows && (t.level.short() || t.level == fresh) && !g.without(ruleParts)) {
		class |= 1 << 6
	}
	if !g.without(ruleFewest) {
		class |= uint8(min(strangerAnswers, t.client.answers+t.client.running)) << 1 //nolint:gosec // few
	}
	if t.stale && !g.without(ruleStale) {
		class |= 1
	}
	return class
}

// line puts a stranger at its place among those of its level. A stranger that got several
// answers and comes again will soon be known, and is served in turn.
func (g *gate) line(t *Ticket) {
	t.class, t.rank = g.classOf(t), float64(t.order)
	if t.site.strangers.newest && t.client.answers+t.client.running < strangerAnswers {
		t.rank = -t.rank
	}
}

// losePatience marks requests that waited too long; while there are such, the newest strangers
// go first. A request that only waits behind another one of its client, or whose client got
// several answers, does not count, because its wait does not show that the queue is too long.
// The oldest patient request is found in the list of all waiting requests.
func (g *gate) losePatience(at time.Duration) {
	for t := g.patient; t != nil && at-t.asked >= patience; t = g.patient {
		g.patient = t.links[byAge].behind
		if !t.stranger || t.heap == nil || t.waitEntry != nil { // a cap's wait says nothing of the gate
			continue
		}
		t.stale = true
		if t.client.answers < strangerAnswers {
			t.site.strangers.newestTo = t.asked + patience + impatientFor
		}
		if h := t.heap; h != &t.site.parked {
			h.remove(t)
			g.line(t)
			h.push(t)
		}
	}
	for _, s := range g.contending {
		if newest := at < s.strangers.newestTo && !g.without(ruleNewest); newest != s.strangers.newest {
			s.strangers.newest = newest
			g.lineUp(s)
		}
	}
}

// lineUp puts all strangers of a site at their places again.
func (g *gate) lineUp(s *site) {
	for i := range s.queues {
		h := &s.queues[i].strange
		for _, t := range *h {
			g.line(t)
		}
		heap.Init(h)
	}
}
