package limiter

import (
	"slices"
	"time"
)

// snapshot is what is copied of the gate while it is locked. Its links are still those
// of the originals, by which they are known, and which are not followed.
type snapshot struct {
	books   books
	sites   map[*site]*site // those of the tickets, but for the home
	waiting []copied        // in the order of their arrival
	running []copied
	buckets map[*bucket]*bucket // by meetBuckets
}

// copied is a copy of a ticket, and what was copied with it.
type copied struct {
	of             *Ticket
	ticket         Ticket
	client         client
	holds, orphans [MaxKeys]int32 // of its buckets
}

// snapshot copies the gate; nil: too many wait.
func (g *gate) snapshot(running []*Ticket) *snapshot {
	n := int(g.waiting.Load())
	s := &snapshot{waiting: make([]copied, 0, n+n/8+8), running: make([]copied, 0, len(running))}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.queued > mostReplicated {
		return nil
	}
	for t := g.oldest; t != nil; t = t.later {
		if len(s.waiting) == cap(s.waiting) {
			s.waiting = slices.Grow(s.waiting, 1)
		}
		s.waiting = s.waiting[:len(s.waiting)+1]
		s.waiting[len(s.waiting)-1].take(t)
	}
	for _, t := range running {
		if t.phase.running() {
			s.running = s.running[:len(s.running)+1]
			s.running[len(s.running)-1].take(t)
		}
	}
	s.books = g.books
	s.books.contending, s.books.present = slices.Clone(s.books.contending), slices.Clone(s.books.present)
	s.books.home.own()
	s.sites = make(map[*site]*site)
	for _, all := range [][]copied{s.waiting, s.running} {
		for i := range all {
			if of := all[i].ticket.site; of != &g.home && s.sites[of] == nil {
				s.sites[of] = of.copy()
			}
		}
	}
	return s
}

// copy is another site like it, with heaps of its own.
func (s *site) copy() *site {
	c := *s
	c.own()
	return &c
}

// own has the site own its heaps.
func (s *site) own() {
	for _, h := range s.heaps() {
		*h = slices.Clone(*h)
	}
}

// take copies a ticket. The gate is locked.
func (c *copied) take(t *Ticket) {
	c.of = t
	t.mu.Lock()
	defer t.mu.Unlock()
	c.ticket.copy(t)
	for i := range t.reservations[:t.n] {
		if b := t.reservations[i].Bucket; b != nil {
			c.holds[i], c.orphans[i] = b.Value.holds, b.Value.orphans
		}
	}
	from, to := t.client, &c.client
	to.flow, to.first, to.answers, to.queued, to.running = from.flow, from.first, from.answers, from.queued, from.running
	to.misjudged, to.known, to.standing, to.alone = from.misjudged, from.known, from.standing, from.alone
}

// copy makes the ticket like another one, but for its place in the waiting room; and nobody
// waits for its decision.
func (t *Ticket) copy(o *Ticket) {
	t.decidedAtOnce, t.sure, t.proven, t.passed, t.stranger, t.session = true, o.sure, o.proven, o.passed, o.stranger, o.session
	t.follows, t.interest, t.prefetch, t.face, t.pooled = o.follows, o.interest, o.prefetch, o.face, o.pooled
	t.standing, t.share, t.clientsBehind, t.came, t.likelyIdle, t.running = o.standing, o.share, o.clientsBehind, o.came, o.likelyIdle, o.running
	t.n, t.guess, t.charged, t.queueEntry = o.n, o.guess, o.charged, o.queueEntry
	t.counts, t.within = false, o.within
	copy(t.reservations[:t.n], o.reservations[:t.n])
}

// meetBuckets copies the buckets. They are as they are now, which may be a moment later.
func (s *snapshot) meetBuckets() {
	s.buckets = make(map[*bucket]*bucket)
	for _, all := range [][]copied{s.waiting, s.running} {
		for i := range all {
			c := &all[i]
			for k := range c.ticket.reservations[:c.ticket.n] {
				b := c.ticket.reservations[k].Bucket
				if b == nil || s.buckets[b] != nil {
					continue
				}
				own := b.Copy()
				own.Value.holds, own.Value.orphans = c.holds[k], c.orphans[k]
				s.buckets[b] = own
			}
		}
	}
}

// replica is a gate of its own with the requests of a snapshot, to see on it what would
// happen. What it is asked is what the gate asks itself.
type replica struct {
	gate    *gate
	tickets map[*Ticket]*Ticket // by the originals
	running []*Ticket
	sites   map[*site]*site
	clients map[*client]*client
	lanes   map[*lane]*lane
	nowhere *address // of all
}

func (s *snapshot) replica() *replica {
	g := newGate(nil)
	g.books = s.books
	g.spare = nil
	r := &replica{
		gate: g, sites: make(map[*site]*site, len(s.sites)), tickets: make(map[*Ticket]*Ticket, len(s.waiting)), running: make([]*Ticket, 0, len(s.waiting)+len(s.running)),
		clients: make(map[*client]*client, len(s.waiting)), lanes: make(map[*lane]*lane, len(s.waiting)), nowhere: &address{clientsBehind: 1},
	}
	for of, c := range s.sites {
		r.sites[of] = c.copy()
	}
	g.home.own()
	g.contending = slices.Clone(g.contending)
	for i, of := range g.contending {
		g.contending[i] = r.siteOf(of)
	}
	g.present = slices.Clone(g.present)
	for i, of := range g.present {
		if of.name == "" || r.sites[of] != nil { // of the others nothing waits or runs
			g.present[i] = r.siteOf(of)
		}
	}
	buckets := make(map[*bucket]*bucket, len(s.buckets))
	for of, b := range s.buckets {
		own := b.Copy()
		own.Value.holds, own.Value.orphans = b.Value.holds, b.Value.orphans
		buckets[of] = own
	}
	waiting := make([]*Ticket, len(s.waiting))
	for i := range s.waiting {
		waiting[i] = r.copy(&s.waiting[i], buckets)
		r.tickets[s.waiting[i].of] = waiting[i]
	}
	for i := range s.running {
		t := r.copy(&s.running[i], buckets)
		r.running = append(r.running, t)
	}
	r.link(waiting)
	return r
}

// siteOf is the replica's copy of a site.
func (r *replica) siteOf(of *site) *site {
	if c := r.sites[of]; c != nil {
		return c
	}
	return &r.gate.home
}

// copy makes a ticket of the replica, which is in no list yet.
func (r *replica) copy(c *copied, buckets map[*bucket]*bucket) *Ticket {
	t, o := &Ticket{}, &c.ticket
	t.copy(o)
	if t.client = r.clients[o.client]; t.client == nil {
		own := c.client
		own.address, own.site = r.nowhere, r.siteOf(o.site)
		t.client, r.clients[o.client] = &own, &own
	}
	t.site = r.siteOf(o.site)
	switch {
	case t.stranger:
		t.flow = &t.site.strangers.flow
	default:
		t.flow = &t.client.flow
	}
	for i := range t.reservations[:t.n] {
		if b := t.reservations[i].Bucket; b != nil {
			t.reservations[i].Bucket = buckets[b]
		}
	}
	return t
}

// link puts those that wait into the replica's own lanes, heaps and order.
func (r *replica) link(waiting []*Ticket) {
	g := r.gate
	for i, t := range waiting {
		t.later, t.earlier = nil, nil
		if i > 0 {
			t.earlier, waiting[i-1].later = waiting[i-1], t
		}
		t.behind, t.before = r.tickets[t.behind], r.tickets[t.before]
		of := t.lane
		l := r.lanes[of]
		if l == nil {
			l = &lane{level: t.level, next: t.client.lanes}
			t.client.lanes, r.lanes[of] = l, l
		}
		l.n++
		if t.lane = l; t.before == nil {
			l.first = t
		}
		if t.behind == nil {
			l.last = t
		}
		t.heap = nil
	}
	g.oldest, g.newest = nil, nil
	if n := len(waiting); n > 0 {
		g.oldest, g.newest = waiting[0], waiting[n-1]
	}
	g.patient = r.tickets[g.patient]
	for _, s := range g.contending {
		for _, h := range s.heaps() {
			for i, t := range *h {
				(*h)[i] = r.tickets[t]
				(*h)[i].heap, (*h)[i].index = h, i
			}
		}
	}
}

// play ends one request at the backend after another, first those of the size of a
// level, until all that wait there have gone, and tells how many went before each of
// those that went.
func (r *replica) play(at time.Duration, of level) (order map[*Ticket]int) {
	g := r.gate
	order = make(map[*Ticket]int)
	left := 0
	for _, t := range r.tickets {
		if t.level == of {
			left++
		}
	}
	if of == fresh {
		at = max(at, g.probeAgain)
	}
	for {
		for t, p := g.next(at); t != nil; t, p = g.next(at) {
			if t.level == of {
				left--
			}
			order[t] = len(order)
			g.begin(at, t, p)
			r.running = append(r.running, t)
		}
		if left == 0 || !r.endOne(at, of) {
			return order
		}
	}
}

// endOne ends the request at the backend that is most like those of a level, and of
// those the one that came first. It returns false if there is none.
func (r *replica) endOne(at time.Duration, of level) bool {
	g := r.gate
	if len(r.running) == 0 {
		if g.busy == 0 {
			return false
		}
		r.endUnknown()
		return true
	}
	first := 0
	for i, t := range r.running {
		if far, least := farFrom(t, of), farFrom(r.running[first], of); far < least || far == least && t.began < r.running[first].began {
			first = i
		}
	}
	t := r.running[first]
	r.running = slices.Delete(r.running, first, first+1)
	t.site.clock.serve(max(t.guess, t.charged))
	g.settleSite(at, t, max(t.guess, t.charged))
	if !t.ahead && t.rung <= passRung {
		g.within.add(at, t.guess)
		t.site.within.add(at, t.guess)
	}
	t.client.answers++
	g.goes(t, -1)
	g.unorphan(t)
	g.free(t)
	t.phase = outside
	t.flow.leave(&t.site.clock, t.site.busy == 0 && t.site.queued == 0)
	if t.site.among.leave(&g.clock, g.busy == 0 && g.queued == 0); t.site.among.work == 0 {
		g.weighOpen(t.site)
	}
	return true
}

// endUnknown ends those at the backend that the caller did not know of.
func (r *replica) endUnknown() {
	g := r.gate
	g.load, g.busy, g.delayed, g.orphans = load{}, 0, ofDelayed{}, 0
	for _, s := range g.contending {
		s.busy, s.long, s.longAhead, s.strangerLong, s.misjudged = 0, 0, 0, 0, misjudged{}
	}
	for _, t := range r.tickets {
		t.each(func(s *reservation) { s.Bucket.Value.holds, s.Bucket.Value.orphans = 0, 0 })
	}
	g.unpark()
}

// farFrom is how little a running request is like those of a level, as to whose room it
// has.
func farFrom(t *Ticket, of level) int {
	r := of.rung()
	switch {
	case of == fresh && t.phase == probing:
		return 0
	case of.computes() != (t.phase != holding):
		return 2*rungs + int(t.rung)
	case t.rung <= r:
		return int(r - t.rung)
	}
	return rungs + int(t.rung-r)
}
