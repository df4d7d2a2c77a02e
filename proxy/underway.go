package proxy

import (
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

// Underway is a request that waits or is at the backend, as it was at a moment. Its texts
// are as the client sent them, but bounded.
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
	Standing float64
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
		u.ticket, u.Group, u.Arrived = x.Ticket(), x.group(), x.waits
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
		u.Group, u.Orphan = x.group(), x.IsOrphan()
		c.offer(u)
	})
	rows = c.sorted()
	for i := range rows {
		rows[i].own()
	}
	return rows, c.total
}

// underway is what is seen of an exchange while somebody else serves it: what does not
// change from when it waits until it is over.
func (x *exchange) underway() Underway {
	return Underway{
		ID: x.given, Client: x.Who.Client, Agent: x.Who.Agent, Method: x.request.Method,
		Host: x.request.Host, Target: x.request.RequestURI, Shape: x.Who.Shape, Keys: x.Who.Keys(), Kind: x.Kind(),
		Standing: x.Who.Standing, Evidence: x.Who.Evidence, Arrived: x.arrived, Guess: x.Guess,
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
