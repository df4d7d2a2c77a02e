package limiter

import (
	"container/heap"
	"time"

	"tempomat/limiter/known"
)

// flow is one competitor on a clock: a client, all strangers together, or a site.
//
// The clock is that of generalised processor sharing (Parekh and Gallager, 1993): it advances by the service
// given, divided by the shares of all clients with work. A flow's virtual time is its past service divided by
// its share, counted from the clock when it began to work. A flow whose virtual time is beyond the clock has
// had more service than its share. The difference is called its lead.
type flow struct {
	virtualTime float64 // virtual CPU-seconds per unit of share
	share       float64 // part of the machine; for a site, relative to the other sites
	work        int     // requests that wait or run
}

// clock is the virtual time of a set of flows: those of one site's clients, or those of all sites.
type clock struct {
	systemVirtualTime float64 // CPU-seconds per unit of share
	furthest          float64 // the furthest virtual time that any flow has reached
	active            float64 // the sum of the shares of the flows with work
}

func (f *flow) enter(k *clock) {
	if f.work++; f.work == 1 {
		k.active += f.share
	}
}

// leave stops counting a request. idle means that no flow on the clock has any request left.
func (f *flow) leave(k *clock, idle bool) {
	if f.work--; f.work > 0 {
		return
	}
	k.active -= f.share
	if idle {
		// While no client has work, a client's lead delays no other client, so all leads are reset.
		k.active = 0
		k.systemVirtualTime = max(k.systemVirtualTime, k.furthest)
	}
}

// reweigh changes the flow's share. It may be called while the flow has work.
func (f *flow) reweigh(k *clock, share float64) {
	if f.work > 0 {
		k.active += share - f.share
	}
	f.share = share
}

// charge advances the flow's virtual time for x CPU-seconds of service, and returns the advance. most limits
// how far the flow may be ahead of the clock.
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

// chargeFlow charges a request's flow. The policy's memory limits the flow's lead.
func (g *gate) chargeFlow(t *Ticket, x float64) (moved float64) {
	return t.flow.charge(&t.site.clock, x, g.ranking.memory*g.ranking.cpus)
}

// client is what the gate knows about a client.
type client struct {
	flow
	site      *site
	elsewhere *client // the same client at another site
	lanes     *lane   // lanes with a waiting request

	first   time.Duration // when it was first seen
	answers int32         // requests that ran
	queued  int32         // requests in all lanes
	running int32         // at the backend
	// misjudged is how many of the running requests arrived as short ones but aren't short.
	misjudged int32
	known     bool          // not a stranger
	asked     uint32        // the value of known.Clients.Learnt at the last lookup; if it changes, a new lookup may succeed
	renew     time.Duration // when to store again that the client is known
	standing  float64       // standing of its latest request
	alone     float64       // its share if it were the only client of its address
	person    float64       // how much its latest request counts as a person's, 0 to 1

	address          *address
	beside, beforeIt *client // other clients of the address with work: the next and the previous one in its list
	face             uint8   // for a client without sessions: which of the address's User-Agents it is
	faces            *[faces]*client
}

// faces is how many User-Agents of an address the gate distinguishes.
const faces = 8

// A stranger becomes known once it has been seen for a while and has received a few answers. A client that
// makes only one request never becomes known.
const (
	strangerFor     = 30 * time.Second
	strangerAnswers = 5
)

// noteSeen checks whether a client has become known, and records it if so.
func (g *gate) noteSeen(at time.Duration, t *Ticket) {
	c := t.client
	if t.pooled {
		return // a pooled client gains nothing from being known
	}
	if learnt := g.known.Learnt(); !c.known && c.asked != learnt {
		c.asked, c.known = learnt, g.known.Has(at, t.own().Bucket.Key.ID)
	}
	if !c.known && c.answers >= strangerAnswers && at-c.first >= strangerFor {
		c.known = true
	}
	if c.known && at >= c.renew {
		c.renew = at + known.Renew // renews the entry before it expires here and at other instances
		g.known.Add(at, t.own().Bucket.Key.ID)
	}
}

// client returns the client for which a ticket's first key stands: a session, or a User-Agent of an address.
// All clients of a pool are one client, because anyone can invent their identities.
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
		c.home().clientsBehind = t.clientsBehind
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
		f = &client{first: at, known: c.known, address: home, face: t.face, site: t.site}
		c.faces[t.face] = f
	}
	return f
}

// owner returns the client of a key at a site. A client that was known earlier is still known.
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

// home returns the client's address. It creates one if the client has none.
func (c *client) home() *address {
	if c.address == nil {
		c.address = &address{clientsBehind: 1}
	}
	return c.address
}

// weigh sets the client's share, and how much it counts as a person.
func (c *client) weigh(share, person float64) {
	if c.alone != share || c.person != person {
		c.alone, c.person = share, person
		c.address.reshare()
	}
}

// enterFlow counts a request in its flow.
func (t *Ticket) enterFlow(g *gate) {
	t.site.among.enter(&g.clock)
	if t.flow.enter(&t.site.clock); !t.stranger && t.flow.work == 1 {
		t.client.address.enter(t.client)
	}
}

// leaveFlow stops counting a request in its flow.
func (t *Ticket) leaveFlow(g *gate) {
	if !t.stranger && t.flow.work == 1 {
		t.client.address.leave(t.client)
	}
	t.flow.leave(&t.site.clock, t.site.busy == 0 && t.site.queued == 0)
	t.site.among.leave(&g.clock, g.busy == 0 && g.all.n == 0)
}

// answered counts an answer that a client got.
func (g *gate) answered(at time.Duration, t *Ticket) {
	t.client.answers++
	g.noteSeen(at, t)
}

// address is the level above a client. Each of its sessions, or each of its User-Agents if it has no sessions,
// is a client of its own. The sum of their shares depends on how many clients are behind the address, so more
// cookies don't give a client a larger part of the server.
type address struct {
	active        *client // a list of its clients with requests that wait or run
	n             int     // their number
	clientsBehind float64 // the most clients that the address counts as
	uploads       int     // requests of its clients at the backend that arrived before their bodies were complete
}

// enter adds a client that has work again.
func (a *address) enter(c *client) {
	if c.beside = a.active; c.beside != nil {
		c.beside.beforeIt = c
	}
	a.active = c
	a.n++
	a.reshare()
}

// leave removes a client that has no work left.
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

// reshare divides the address's share among its clients. The address counts as many clients as there are people
// among those with requests, because a client could otherwise get many cookies and use only a few. All have equal
// parts of one client's share. The people divide the rest, so they bring nothing to a crawler behind the same address.
func (a *address) reshare() {
	people := 0.0
	for c := a.active; c != nil; c = c.beside {
		people += c.person
	}
	each, more := 1/float64(max(1, a.n)), max(0, min(a.clientsBehind, people)-1)/max(1, people)
	for c := a.active; c != nil; c = c.beside {
		c.reweigh(&c.site.clock, c.alone*(each+more*c.person))
	}
}

// mostElsewhere is the number of sites, in addition to its first, at which the gate remembers an idle client.
const mostElsewhere = 3

// visit returns the client's state at a site other than its first. The client has a flow of its own at each
// site, because each site has its own clock. A client that is known at one site is known at all sites.
func (c *client) visit(s *site) *client {
	n := 0
	var least **client // the idle entry with the smallest lead, which is replaced first
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

// lead returns how many CPU-seconds of service the client has had beyond its share at its site.
func (c *client) lead() float64 {
	return max(0, c.virtualTime-c.site.clock.systemVirtualTime) * c.share
}

// lead returns how far the request's flow is ahead, not counting the charge for the request itself.
func (t *Ticket) lead() float64 {
	return max(0, t.flow.virtualTime-t.applied-t.site.clock.systemVirtualTime) * t.flow.share
}

// isIdle reports whether neither the client nor its address has a request that waits or runs.
func (c *client) isIdle() bool {
	if c.work > 0 || c.queued > 0 || c.running > 0 || c.address != nil && c.address.n+c.address.uploads > 0 {
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

// These constants of the rank were found by simulation. They can't be configured.
const (
	// baseMultiplier gives a request's cost, divided by its client's share, more weight than its time of
	// arrival. Cheap pages, and pages of clients with a high standing, therefore go before others that arrived
	// earlier.
	baseMultiplier = 2
	debtMultiplier = 16   // the amount that the deepest debt adds to the multiplier
	inheritedDebt  = 0.25 // the part of its networks' and User-Agent's debt that a client bears if it owes nothing itself
	aheadFrom      = 0.5  // a client with a lead above this, in CPU-seconds, counts as over its share
)

// ranking holds the settings that ranks depend on.
type ranking struct {
	memory float64 // seconds
	cpus   float64
}

// levelQueue holds, for one level, the first request of each client's lane.
type levelQueue struct {
	underShare headHeap // heads of clients within their share
	overShare  headHeap // heads of clients over their share
	strange    headHeap // strangers' heads, in the order of their turns
	turn       float64  // the clock at which the strangers' turn began
}

func (q *levelQueue) empty() bool { return len(q.underShare)+len(q.overShare)+len(q.strange) == 0 }

// enqueueHead ranks a request that has become the head of its lane, charges its flow with the guessed cost, and
// lets it compete for the ladder. A stranger's request is ranked and charged only when the strangers' turn
// comes. If strangers were charged while they wait, each one that waits would postpone the turn of all.
//
// The rank is the clock at the request's arrival, plus the client's lead, plus the cost divided by the client's
// share and multiplied by a factor that grows with debt. It doesn't change while the request waits. Because the
// clock advances, every waiting request goes eventually.
func (g *gate) enqueueHead(at time.Duration, t *Ticket) {
	t.costMultiplier = baseMultiplier + debtMultiplier*t.debtRatio(at, !t.stranger)
	if t.stranger {
		t.overShare = true
	} else {
		lead, e := max(0, t.flow.virtualTime-t.clock), t.guess/t.flow.share
		t.overShare = lead*t.flow.share > aheadFrom
		t.rank = t.clock + e*t.costMultiplier + lead
		g.charge(t)
	}
	g.put(t)
}

// charge charges a request's flow with the guessed cost.
func (g *gate) charge(t *Ticket) {
	t.charged, t.paid = t.guess, t.guess
	t.applied = g.chargeFlow(t, t.guess)
}

// debtRatio returns the debt that counts against the request, from 0 to 1: the largest of its keys' debts.
// People share networks and User-Agents with crawlers, so a client that owes nothing itself bears only a part
// of the other keys' debt. The same applies to strangers; otherwise the debt of a popular User-Agent would shut
// out every newcomer that sends it. Each member of a pool owes what the whole pool owes. If reserve is true,
// debtRatio also reserves the guess on all keys.
func (t *Ticket) debtRatio(at time.Duration, reserve bool) float64 {
	var own, others float64
	t.each(func(s *reservation) {
		g := s.DebtRatio(at, t.guess, reserve)
		if s == t.own() || t.pooled && s == t.whole() {
			own = max(own, g)
		} else {
			others = max(others, g)
		}
	})
	if own == 0 {
		others *= inheritedDebt
	}
	return max(own, others)
}

// put puts the head of a lane into the heap in which it competes.
func (g *gate) put(t *Ticket) {
	s := t.site
	q := &s.queues[t.level]
	switch {
	case t.stranger:
		if len(q.strange) == 0 {
			q.turn = s.strangersTurn(q)
		}
		t.line()
		q.strange.push(t)
	case t.overShare:
		q.overShare.push(t)
	default:
		q.underShare.push(t)
	}
}

// precedes reports whether the request goes before another one in its heap.
func (t *Ticket) precedes(o *Ticket) bool {
	if t.class != o.class {
		return t.class < o.class
	}
	return t.rank < o.rank || t.rank == o.rank && t.order < o.order
}

// headHeap is a heap of lanes' heads, ordered by rank, for container/heap. Each head stores its own index.
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
	t := x.(*Ticket) //nolint:forcetypeassert // container/heap passes the value that push received
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

// strangers is the flow that all unknown clients of a site share. A crawler that uses a new address for each
// request therefore competes only with other strangers. The strangers' share is at least half the sum of all
// other shares, so together they can get a third of the machine, however many known clients there are.
//
// When the flow's turn comes, the strangers' order decides which of them takes the turn. Normally it is the one
// that arrived first. If more arrive than can be served within a person's patience, the first to arrive have
// already given up, so the newest takes the turn. Facebook found the same (adaptive LIFO, "Fail at Scale", ACM
// Queue 2015).
type strangers struct {
	flow
	newest   bool          // the newest stranger goes first
	newestTo time.Duration // when newest ends, unless another stranger loses patience first
}

const (
	// patience is how long a stranger's request waits before the gate assumes that its client is losing
	// patience. It is also how long light requests get no extra room after one turned out not to be light.
	patience = time.Second
	// strangersShare is the share of all strangers together, as a part of the whole machine or of the sum of all
	// other clients' shares, whichever is larger.
	strangersShare = 0.5
	// strangersCredit limits the service that strangers can catch up on, as a multiple of a request's cost.
	strangersCredit = 4
)

// reshare adapts the strangers' share to the shares of the known clients.
func (s *strangers) reshare(of *site) {
	others := of.clock.active
	if s.work > 0 {
		others -= s.share
	}
	s.reweigh(&of.clock, strangersShare*max(1, others))
}

// order returns the position of a stranger's request among strangers that wait at different levels; the
// lowest goes first. All strangers of a level are treated as one client whose next request arrived at q.turn.
// This divides the strangers' service among the levels, so the shortest requests don't take all of it.
func (s *strangers) order(q *levelQueue, t *Ticket) float64 {
	return q.turn + t.guess/s.share*t.costMultiplier
}

// strangersTurn returns the turn of a level at which no stranger waited: the level's previous turn, or the
// earliest turn of the other levels if that is later. It doesn't use the site's clock, because the clock is
// ahead of these turns while known clients use the CPUs. A newcomer's page would then wait for all exports of a
// crawl whose turns began earlier.
func (s *site) strangersTurn(q *levelQueue) float64 {
	first := s.clock.systemVirtualTime
	for i := range s.queues {
		if other := &s.queues[i]; len(other.strange) > 0 {
			first = min(first, other.turn)
		}
	}
	return min(max(q.turn, first), s.clock.systemVirtualTime)
}

// rank returns a stranger's rank among the requests of all clients.
func (s *strangers) rank(of *site, q *levelQueue, t *Ticket) float64 {
	e := t.guess / s.share
	return of.turn(q, e) + e*t.costMultiplier + s.lead(of)
}

// lead returns how far the strangers' flow is ahead of the clock, in virtual time.
func (s *strangers) lead(of *site) float64 {
	return max(0, s.virtualTime-of.clock.systemVirtualTime)
}

// turn returns when the turn of a level began. It forgets most of the service that strangers have missed,
// because known clients may not wait until a flood of strangers has caught up. e is the cost divided by the
// share.
func (s *site) turn(q *levelQueue, e float64) float64 {
	return max(q.turn, s.clock.systemVirtualTime-strangersCredit*e)
}

// went advances the level's turn by the cost of the request that took it, divided by the strangers' share.
func (q *levelQueue) went(t *Ticket) {
	s := t.site
	e := t.guess / s.strangers.share
	q.turn = min(s.clock.systemVirtualTime, s.turn(q, e)+e)
}

// classOf returns the class of a stranger's request; lower classes go first. Within a class, the order of
// arrival decides. A stranger that sent back a cookie, or that requests the parts of its page, has shown that
// it makes more than one request, so it goes earlier. Prefetches go last. Answers count up to mostAnswers, far
// more than the number that makes a stranger known. Otherwise, a client that sends hundreds of requests at once
// would go ahead of one that sends its sixth a second later.
func classOf(t *Ticket) (class uint8) {
	const mostAnswers = 31 // five bits
	if t.prefetch {
		class |= 1 << 6
	}
	if !t.passed && !(t.follows && (t.level.short() || t.level == fresh)) {
		class |= 1 << 5
	}
	return class | uint8(min(mostAnswers, t.client.answers+t.client.running)) //nolint:gosec // at most mostAnswers
}

// line sets the position of a stranger's request among those of its level. While the newest go first, a stranger with
// several answers keeps its place in the order of arrival, because it will soon be known. So does a stranger that has
// waited too long. Otherwise, those that came at the beginning of a rush would be refused although it is over.
func (t *Ticket) line() {
	t.class, t.rank = classOf(t), float64(t.order)
	if t.site.strangers.newest && !t.stale && t.client.answers+t.client.running < strangerAnswers {
		t.rank = -t.rank
	}
}

// losePatience looks for strangers' requests that have waited too long. For some time after that, the newest
// strangers go first. A wait behind another request of the same client doesn't count, nor does the wait of a
// client that has already received several answers, because neither shows that the queue is too long. g.patient
// is the oldest waiting request that losePatience hasn't looked at yet.
func (g *gate) losePatience(at time.Duration) {
	for t := g.patient; t != nil && at-t.asked >= patience; t = g.patient {
		g.patient = t.links[byAge].behind
		if !t.stranger || t.heap == nil || t.waitEntry != nil { // a wait for a cap says nothing about the gate's queue
			continue
		}
		if t.client.answers < strangerAnswers {
			t.site.strangers.newestTo = t.asked + patience + usedFor
		}
		t.stale = true
		t.line()
		heap.Fix(t.heap, t.index)
	}
	for _, s := range g.contending {
		if newest := at < s.strangers.newestTo; newest != s.strangers.newest {
			s.strangers.newest = newest
			s.lineUp()
		}
	}
}

// lineUp sets the positions of all waiting strangers of a site again.
func (s *site) lineUp() {
	for i := range s.queues {
		h := &s.queues[i].strange
		for _, t := range *h {
			t.line()
		}
		heap.Init(h)
	}
}
