package proxy

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"tempomat/classify"
	"tempomat/cpuaccount"
	"tempomat/limiter"
	"tempomat/proxy/telemetry"
)

// mostShown is how many bytes of a request's target, and of its host, are shown.
const mostShown = 512

// Underway is a snapshot of a request that waits or is at the backend. Its texts are as the
// client sent them, but bounded.
type Underway struct {
	ID       string // that a trusted proxy gave it; empty: none did
	Client   netip.Addr
	Group    telemetry.Group
	Agent    string // the family of its User-Agent
	Method   string
	Host     string // at most 512 bytes
	Target   string // at most 512 bytes
	Shape    string
	Keys     []limiter.Key
	Kind     cpuaccount.Kind // what its guess goes by
	Evidence classify.Evidence
	Arrived  time.Time // of one that waits, since when it does: its body is there
	Guess    time.Duration
	Orphan   bool            // its client has left
	Outlook  limiter.Outlook // of one that waits

	ticket *limiter.Ticket
}

// WhoWaits is the requests that wait now and that match (nil: all), who has waited for
// longest first, at most limit of them; total is how many there are.
func (h *Handler) WhoWaits(now time.Time, limit int, match func(*Underway) bool) (rows []Underway, total int) {
	c := collector{limit: limit, match: match}
	h.waiting.Each(func(x *exchange) {
		u := x.underway()
		u.ticket, u.Group, u.Arrived = x.life.Ticket(), x.group(), x.wait.since
		c.offer(u)
	})
	rows = c.sorted()
	waiting := make([]*limiter.Ticket, len(rows))
	for i := range rows {
		waiting[i] = rows[i].ticket
	}
	for i, o := range h.limiter.Outlooks(now, waiting) {
		u := &rows[i]
		u.Outlook, u.ticket = o, nil
		if o.Waits {
			u.Guess = o.Guess
		}
		u.own()
	}
	return rows, c.total
}

// WhoRuns is the same of the requests at the backend. Their Outlook says nothing.
func (h *Handler) WhoRuns(limit int, match func(*Underway) bool) (rows []Underway, total int) {
	c := collector{limit: limit, match: match}
	h.running.Each(func(x *exchange) {
		u := x.underway()
		u.Group, u.Orphan = x.group(), x.life.IsOrphan()
		c.offer(u)
	})
	rows = c.sorted()
	for i := range rows {
		rows[i].own()
	}
	return rows, c.total
}

// underway is what another goroutine may see of an exchange: what does not change from when it
// waits until it is over.
func (x *exchange) underway() Underway {
	return Underway{
		ID: x.given, Client: x.life.Who.Client, Agent: x.life.Who.Agent, Method: x.request.Method,
		Host: x.request.Host, Target: x.request.RequestURI, Shape: x.life.Who.Shape, Keys: x.life.Who.Keys(), Kind: x.life.Kind(),
		Evidence: x.life.Who.Evidence, Arrived: x.arrived, Guess: x.life.Guess,
	}
}

// own makes copies of what else would keep the memory of the request alive, or is used
// for the next one.
func (u *Underway) own() {
	shown := func(s string) string { return strings.Clone(s[:min(len(s), mostShown)]) }
	u.Host, u.Target, u.Method = shown(u.Host), shown(u.Target), shown(u.Method)
}

// collector keeps those requests that came first, in bounded memory.
type collector struct {
	limit int
	match func(*Underway) bool
	rows  []Underway
	total int
}

func (c *collector) offer(u Underway) {
	if c.match != nil && !c.match(&u) {
		return
	}
	if c.total++; len(c.rows) >= 2*c.limit {
		c.rows = c.sorted()
	}
	u.Keys = slices.Clone(u.Keys) // the exchange serves another one soon
	c.rows = append(c.rows, u)
}

func (c *collector) sorted() []Underway {
	slices.SortFunc(c.rows, func(a, b Underway) int { return a.Arrived.Compare(b.Arrived) })
	return c.rows[:min(len(c.rows), c.limit)]
}

// leastTold is the cost from which running requests are reported. Cheaper ones are over before
// a person looks.
const leastTold = 50 * time.Millisecond

// SoFar appends an Entry for each request at the backend whose cost grew since the last call;
// the Entry's Cost is that increase. The sum of these is reported at the end as Record.Told.
// One goroutine calls it.
func (h *Handler) SoFar(now time.Time, to []telemetry.Entry) []telemetry.Entry {
	h.running.Each(func(x *exchange) {
		if x.backend.lingers { // it is on record
			return
		}
		cost := x.life.SoFar(now)
		if cost < leastTold || cost <= x.log.told.cost {
			return
		}
		more := cost - x.log.told.cost
		x.log.told.cost = cost
		r := telemetry.Record{
			Arrived: x.arrived, Request: x.request, Who: &x.life.Who, Verdict: x.life.Verdict, Group: x.group(),
			Guess: x.life.Guess, Cost: more, Orphan: x.life.IsOrphan(),
		}
		if r.Orphan {
			x.log.told.wasted += more
		}
		to = append(to, telemetry.Entry{})
		to[len(to)-1].Set(now, &r, 1)
	})
	return to
}

// mostPlaces bounds how many pages AtBackend tells apart.
const mostPlaces = 256

// AtBackend lists the pages and groups of the requests at the backend, the most frequent first, at
// most limit of them. It may be called at any time.
func (h *Handler) AtBackend(limit int) []telemetry.Place {
	type place struct {
		group telemetry.Group
		shape string
	}
	counts := make(map[place]int)
	h.running.Each(func(x *exchange) {
		p := place{x.group(), x.life.Who.Shape}
		if _, known := counts[p]; known || len(counts) < mostPlaces {
			counts[p]++
		}
	})
	all := make([]telemetry.Place, 0, len(counts))
	for p, n := range counts {
		all = append(all, telemetry.Place{Group: p.group, Shape: p.shape, Count: n})
	}
	slices.SortFunc(all, func(a, b telemetry.Place) int {
		return cmp.Or(b.Count-a.Count, cmp.Compare(a.Group, b.Group), cmp.Compare(a.Shape, b.Shape))
	})
	all = all[:min(limit, len(all))]
	for i := range all {
		all[i].Shape = strings.Clone(all[i].Shape)
	}
	return all
}

// WaitingByGroup counts who waits for a place at the backend. It may be called at any time.
func (h *Handler) WaitingByGroup(now time.Time) (w telemetry.Waiting) {
	h.waiting.Each(func(x *exchange) {
		g := x.group()
		w.Count[g]++
		w.Longest[g] = max(w.Longest[g], now.Sub(x.wait.since))
	})
	return w
}
