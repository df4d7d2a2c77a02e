package smockron

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"tempomat/limiter"
)

// Route is a domain of this gatekeeper: the class whose keys are its identifiers.
type Route struct {
	Domain string
	Class  string
	Master Addresses // masters of the domain: domains can have different ones, and several
	// Requests charges the domain by requests: accounting is sent as soon as a
	// request is decided. Its class should be a told one. Else it is charged by CPU
	// time, and accounting is sent when the request is done.
	Requests bool
	// Rejected is the part of the refused requests that the master is told of, 0 to
	// 1. None is needed.
	Rejected float64
}

// GatekeeperOptions are what a Gatekeeper is made of.
type GatekeeperOptions struct {
	// Routes: no two of one class and one master, no two of one domain and one master. Where a class
	// has several masters, all are told of its charges, and the latest order of all is in force: each
	// knows what the others know, and any of them may be gone.
	Routes []Route
	Queue  int // most accounting that waits, for each master; 0: DefaultQueue
	// MaxAge is how old accounting may be when it is sent; 0: two seconds.
	MaxAge time.Duration
	Now    func() time.Time
	// Carries has packets carried by each master that answers a RESYNC of their domain:
	// tempomat's own.
	Carries bool
}

const (
	defaultMaxAge = 2 * time.Second
	// coalesce is how long accounting is gathered before it is sent: it bounds how
	// often the sender wakes up, and is little next to what the network takes.
	coalesce = time.Millisecond
	// askAgain is how long after a RESYNC that was not answered another one is sent,
	// and giveUp after how many a master is treated as one that does not know it.
	askAgain = 100 * time.Millisecond
	giveUp   = 30
)

// Gatekeeper is a limiter.Sharer.
type Gatekeeper struct {
	links  []*link
	routes []*route
}

var _ limiter.Sharer = (*Gatekeeper)(nil)

// route is a Route at work.
type route struct {
	Route
	link     *link
	rejected atomic.Uint64
	synced   atomic.Bool // the master has told all that it knows
	asked    int         // RESYNCs since the master came; for the sender
}

// link is what goes to and comes from one master.
type link struct {
	options GatekeeperOptions
	master  Addresses
	outbox  *limiter.Outbox
	packets limiter.Packets
	routes  []*route // the last one is of packets, if they are carried
	counts  linkCounts
}

// linkCounts is what a link counted since it began.
type linkCounts struct {
	present                                      atomic.Bool // the master subscribed
	sent, full, old, away, orders, past, unsound atomic.Uint64
}

// NewGatekeeper makes a Gatekeeper. It opens nothing before Run.
func NewGatekeeper(o GatekeeperOptions) *Gatekeeper {
	g := &Gatekeeper{}
	o.MaxAge = cmp.Or(o.MaxAge, defaultMaxAge)
	o.Queue = cmp.Or(o.Queue, DefaultQueue)
	for _, r := range o.Routes {
		l := g.link(r.Master)
		if l == nil {
			l = &link{options: o, master: r.Master, outbox: limiter.NewOutbox(o.Queue), packets: limiter.NewPackets()}
			g.links = append(g.links, l)
		}
		x := &route{Route: r, link: l}
		l.routes = append(l.routes, x)
		g.routes = append(g.routes, x)
	}
	for _, l := range g.links {
		if o.Carries {
			l.routes = append(l.routes, &route{Route: Route{Domain: PacketDomain}, link: l})
		}
	}
	return g
}

func (g *Gatekeeper) link(master Addresses) *link {
	for _, l := range g.links {
		if l.master == master {
			return l
		}
	}
	return nil
}

// Offer implements limiter.Sharer.
func (g *Gatekeeper) Offer(c limiter.Charge) bool {
	told, taken := 0, 0
	for _, r := range g.routes { // at most limiter.MaxKeys for each master
		if r.Class == c.Key.Class && !r.skips(c.Event) {
			told++
			if r.link.outbox.Offer(c) {
				taken++
			}
		}
	}
	return taken > 0 || told == 0
}

// Carry implements limiter.Sharer. Any of the masters may be gone.
func (g *Gatekeeper) Carry(packet []byte) (carried bool) {
	for _, l := range g.links {
		carried = l.packets.Carry(packet) || carried
	}
	return carried
}

// skips reports whether the master need not know.
func (r *route) skips(e limiter.Event) bool {
	switch e {
	case limiter.Settled:
		return r.Requests
	case limiter.Rejected:
		if r.Rejected <= 0 {
			return true
		}
		n := float64(r.rejected.Add(1))
		return uint64(n*r.Rejected) == uint64((n-1)*r.Rejected)
	case limiter.Accepted, limiter.Delayed:
	}
	return !r.Requests
}

// Run implements limiter.Sharer. It returns an error at once if there is no
// ZeroMQ; a master that is away is none.
func (g *Gatekeeper) Run(ctx context.Context, in limiter.Sink) error {
	w, err := OpenWire()
	if err != nil {
		return err
	}
	defer w.Close()
	ctx, end := context.WithCancel(ctx)
	defer end()
	failed := make(chan error, 2*len(g.links))
	var all sync.WaitGroup
	for _, l := range g.links {
		all.Go(func() { failed <- l.sendAccounting(ctx, w) })
		all.Go(func() { failed <- l.receiveControl(ctx, w, in) })
	}
	var first error
	for range 2 * len(g.links) {
		if err := <-failed; err != nil && first == nil {
			first = err
			end()
		}
	}
	all.Wait()
	return first
}

// sendAccounting sends accounting to the master until the context ends. ZeroMQ makes and
// keeps the connection.
func (l *link) sendAccounting(ctx context.Context, w *Wire) error {
	s, err := w.publisher(sendQueue, false, l.master.Accounting, false)
	if err != nil {
		return err
	}
	defer s.close()
	ticks := time.NewTicker(askAgain)
	defer ticks.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	var m message
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
			l.pollMaster(s)
			l.resync(s, &m)
		case <-l.outbox.Filled():
			pause.Reset(coalesce)
		case <-pause.C:
			l.pollMaster(s)
			now := l.options.Now()
			l.outbox.Drain(func(c limiter.Charge) { l.send(s, &m, now, c) })
		case p := <-l.packets:
			if r := l.routes[len(l.routes)-1]; r.Domain == PacketDomain && r.synced.Load() && s.send(m.packet(p)) != nil {
				l.counts.full.Add(1)
			}
		}
	}
}

// pollMaster notes whether the master is there: it is as long as it is subscribed.
func (l *link) pollMaster(s *socket) {
	for {
		frames, err := s.poll()
		if err != nil || frames == nil {
			return
		}
		if frame := frames[0]; len(frame) > 0 {
			l.counts.present.Store(frame[0] == 1)
			for _, r := range l.routes {
				r.asked = 0
				r.synced.Store(false)
			}
		}
	}
}

// resync asks for what the master knew before it was connected, until it has told.
func (l *link) resync(s *socket, m *message) {
	if !l.counts.present.Load() {
		return
	}
	for _, r := range l.routes {
		if r.synced.Load() || r.asked >= giveUp {
			continue
		}
		if s.send(m.command(r.Domain, resync)) == nil { // else there is no room now
			r.asked++
		}
	}
}

// send reports one request to the master, unless it is too late. What the master missed while
// it was away is never reported: no client should be punished for it.
func (l *link) send(s *socket, m *message, now time.Time, c limiter.Charge) {
	r := l.route(c.Key.Class)
	switch {
	case r == nil || len(c.Key.ID) > MaxIdentifier:
		return
	case !l.counts.present.Load():
		l.counts.away.Add(1)
		return
	case now.Sub(c.At) > l.options.MaxAge:
		l.counts.old.Add(1)
		return
	}
	status, cost := accepted, time.Duration(-1)
	if c.Event == limiter.Settled {
		cost = c.NormalizedCost() // a master knows no standing: it gives each identifier the same share
	}
	if c.Event == limiter.Rejected {
		status = rejected
	} else if c.Until.UnixMilli() > c.Received.UnixMilli() {
		status = delayed
	}
	if err := s.send(m.accounting(r.Domain, c, status, cost)); err != nil {
		l.counts.full.Add(1)
		return
	}
	l.counts.sent.Add(1)
}

func (l *link) route(class string) *route {
	for _, r := range l.routes {
		if r.Class == class {
			return r
		}
	}
	return nil
}

// receiveControl raises what keys owe as the master says, until the context ends.
func (l *link) receiveControl(ctx context.Context, w *Wire, in limiter.Sink) error {
	topics := make([]string, len(l.routes))
	for i, r := range l.routes {
		topics[i] = topicOf(r.Domain)
	}
	s, err := w.subscriber(receiveQueue, false, l.master.Control, topics...)
	if err != nil {
		return err
	}
	defer s.close()
	for ctx.Err() == nil {
		frames, err := s.receive()
		if err != nil || frames == nil {
			continue // it is ending, or there was nothing
		}
		l.handleControl(frames, in)
	}
	return nil
}

// handleControl takes in one message of the master. A topic is a prefix, so the message may be
// of a domain that begins like ours.
func (l *link) handleControl(frames [][]byte, in limiter.Sink) {
	c, err := parseControl(frames)
	var r *route
	for _, x := range l.routes {
		if err == nil && x.Domain == string(c.domain) {
			r = x
		}
	}
	if r == nil {
		l.counts.unsound.Add(1)
		return
	}
	switch c.command {
	case resyncDone:
		r.synced.Store(true)
	case packet:
		in.Learn(l.options.Now(), c.packet)
	case delayUntil:
		now := l.options.Now()
		until := time.UnixMilli(c.until)
		if !until.After(now) {
			l.counts.past.Add(1)
			return
		}
		in.Raise(now, limiter.Key{Class: r.Class, ID: string(c.identifier)}, until)
		l.counts.orders.Add(1) // those that are counted are in force
	}
}

// LinkState is what the doctor shows of the link to one master.
type LinkState struct {
	Master  string   `json:"master"`
	Domains []string `json:"domains"`
	Present bool     `json:"present"` // it is connected and listens
	Synced  bool     `json:"synced"`  // it has told what it knew when it was connected
	Sent    uint64   `json:"sent"`    // accounting
	Dropped uint64   `json:"dropped"` // accounting without room in the queue or the connection
	Away    uint64   `json:"away"`    // accounting while there was no master
	Old     uint64   `json:"old"`     // accounting that was too old to be sent
	Orders  uint64   `json:"orders"`  // orders to wait
	Past    uint64   `json:"past"`    // orders that were past when they came
	Unsound uint64   `json:"unsound"` // messages that were invalid, or not of our domains
}

// Status implements limiter.Sharer; its Detail is what State returns.
func (g *Gatekeeper) Status() limiter.SharingStatus { return statusOf(g.State()) }

// statusOf is the links' state in the words of all Sharers.
func statusOf(links []LinkState) limiter.SharingStatus {
	all := limiter.SharingStatus{Up: make(map[string]bool, len(links)), Detail: links}
	for _, l := range links {
		all.Up["master "+l.Master] = l.Present
		all.Sent, all.Received = all.Sent+l.Sent, all.Received+l.Orders
		all.Dropped, all.Unsound = all.Dropped+l.Dropped+l.Away+l.Old, all.Unsound+l.Unsound
	}
	return all
}

// State is a picture of the links.
func (g *Gatekeeper) State() []LinkState {
	var all []LinkState
	for _, l := range g.links {
		s := LinkState{
			Master: l.master.Accounting, Present: l.counts.present.Load(), Synced: true,
			Sent: l.counts.sent.Load(), Dropped: l.outbox.Dropped() + l.counts.full.Load(), Away: l.counts.away.Load(), Old: l.counts.old.Load(),
			Orders: l.counts.orders.Load(), Past: l.counts.past.Load(), Unsound: l.counts.unsound.Load(),
		}
		for _, r := range l.routes {
			if r.Domain != PacketDomain {
				s.Domains = append(s.Domains, r.Domain)
				s.Synced = s.Synced && r.synced.Load()
			}
		}
		all = append(all, s)
	}
	return all
}
