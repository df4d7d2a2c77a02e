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

// Underway is a snapshot of a request that waits or is at the backend. Its texts are as the client sent them,
// but may be cut.
type Underway struct {
	ID       string // id that a trusted proxy gave the request; empty: none
	Client   netip.Addr
	Group    telemetry.Group
	Agent    string // family of the client's User-Agent
	Method   string
	Host     string // first 512 bytes at most
	Target   string // first 512 bytes at most
	Shape    string
	Keys     []limiter.Key
	Kind     cpuaccount.Kind // what the guess is based on
	Evidence classify.Evidence
	Arrived  time.Time // when a waiting request began to wait, after its body was read
	Guess    time.Duration
	Orphan   bool            // the client has disconnected
	Outlook  limiter.Outlook // when and why a waiting request may run

	ticket *limiter.Ticket
}

// ListWaiting returns the waiting requests that match (nil: all), the longest wait first, at most limit of
// them. total is how many match.
func (h *Handler) ListWaiting(now time.Time, limit int, match func(*Underway) bool) (rows []Underway, total int) {
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

// ListRunning is like ListWaiting, for requests at the backend. Their Outlook is empty.
func (h *Handler) ListRunning(limit int, match func(*Underway) bool) (rows []Underway, total int) {
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

// underway returns the part of an exchange that another goroutine may read, because it stays the same from
// the time when the request waits until the request is over.
func (x *exchange) underway() Underway {
	return Underway{
		ID: x.given, Client: x.life.Who.Client, Agent: x.life.Who.Agent, Method: x.request.Method,
		Host: x.request.Host, Target: x.request.RequestURI, Shape: x.life.Who.Shape, Keys: x.life.Who.Keys(), Kind: x.life.Kind(),
		Evidence: x.life.Who.Evidence, Arrived: x.arrived, Guess: x.life.Guess,
	}
}

// own copies the texts that would keep the request's memory alive, or that the next request overwrites.
func (u *Underway) own() {
	shown := func(s string) string { return strings.Clone(s[:min(len(s), mostShown)]) }
	u.Host, u.Target, u.Method = shown(u.Host), shown(u.Target), shown(u.Method)
}

// collector keeps the requests that came first, in bounded memory.
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
	u.Keys = slices.Clone(u.Keys) // another request will use the exchange
	c.rows = append(c.rows, u)
}

func (c *collector) sorted() []Underway {
	slices.SortFunc(c.rows, func(a, b Underway) int { return a.Arrived.Compare(b.Arrived) })
	return c.rows[:min(len(c.rows), c.limit)]
}

// leastTold is the lowest cost at which SoFar reports a running request. Cheaper requests usually end before
// a person would see them in a report.
const leastTold = 50 * time.Millisecond

// SoFar appends an Entry for each request at the backend whose cost has grown since the last call; the
// Entry's Cost is the increase. When the request ends, Record.Told is the sum of these costs, so they aren't
// counted twice. Only one goroutine may call it.
func (h *Handler) SoFar(now time.Time, to []telemetry.Entry) []telemetry.Entry {
	h.running.Each(func(x *exchange) {
		if x.backend.lingers { // its whole cost was recorded when its answer ended
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
		to[len(to)-1].Set(now, &r)
	})
	return to
}

// mostPlaces is how many pages AtBackend counts separately.
const mostPlaces = 256

// AtBackend counts the requests at the backend by page and group, and returns at most limit counts, the
// highest first. It may be called at any time.
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

// WaitingByGroup counts the waiting requests of each group. It may be called at any time.
func (h *Handler) WaitingByGroup(now time.Time) (w telemetry.Waiting) {
	h.waiting.Each(func(x *exchange) {
		g := x.group()
		w.Count[g]++
		w.Longest[g] = max(w.Longest[g], now.Sub(x.wait.since))
	})
	return w
}
