package smockron

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"tempomat/limiter"
)

// Route is a domain of this gatekeeper. The keys of the class are the identifiers of the domain.
type Route struct {
	Domain string
	Class  string
	Master Addresses // the domain's master; domains can have different masters, and a domain can have several
	// Requests makes the domain count requests: the gatekeeper sends accounting as soon as a request is
	// decided. The class should be external. Otherwise the domain is charged for CPU time, and accounting is
	// sent when the request has ended.
	Requests bool
}

// GatekeeperOptions are the settings of a Gatekeeper.
type GatekeeperOptions struct {
	// Routes may contain each pair of class and master, and each pair of domain and master, only once. If a
	// class has several masters, all of them get its charges, and the latest time that they order applies. All
	// masters therefore have the same data, and any of them may stop.
	Routes []Route
	Now    func() time.Time
	// Carries makes the Gatekeeper send packets through each master that answers a RESYNC for the packets'
	// domain. Only tempomat's master answers it.
	Carries bool
}

const (
	// maxAge is the age after which accounting is no longer sent.
	maxAge = 2 * time.Second
	// coalesce is how long accounting is collected before it is sent. It limits how often the sender wakes up.
	// It is short compared with the network's delay.
	coalesce = time.Millisecond
	// askAgain is the pause after a RESYNC without an answer. After giveUp such RESYNCs, the gatekeeper
	// assumes that the master doesn't know the command.
	askAgain = 100 * time.Millisecond
	giveUp   = 30
)

// Gatekeeper is a limiter.Sharer.
type Gatekeeper struct {
	links  []*link
	routes []*route
}

var _ limiter.Sharer = (*Gatekeeper)(nil)

// route is a Route in use.
type route struct {
	Route
	link   *link
	synced atomic.Bool // the master has sent all orders that it had
	asked  int         // RESYNCs since the master connected; only the sender uses it
}

// link is the connection to one master.
type link struct {
	options GatekeeperOptions
	master  Addresses
	outbox  *limiter.Outbox
	packets limiter.Packets
	routes  []*route // the last one is for packets, if they are sent
	counts  linkCounts
}

// linkCounts are a link's counters since its start, and whether the master is present.
type linkCounts struct {
	present                              atomic.Bool // the master has subscribed
	sent, dropped, orders, past, unsound atomic.Uint64
}

// NewGatekeeper makes a Gatekeeper. It opens no connection before Run.
func NewGatekeeper(o GatekeeperOptions) *Gatekeeper {
	g := &Gatekeeper{}
	for _, r := range o.Routes {
		l := g.link(r.Master)
		if l == nil {
			l = &link{options: o, master: r.Master, outbox: limiter.NewOutbox(MostWaiting), packets: limiter.NewPackets()}
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
	for _, r := range g.routes { // there are at most limiter.MaxKeys routes for each master
		if r.Class == c.Key.Class && !r.skips(c.Event) {
			told++
			if r.link.outbox.Offer(c) {
				taken++
			}
		}
	}
	return taken > 0 || told == 0
}

// Carry implements limiter.Sharer. It queues the packet for all masters, because any of them may be
// unreachable.
func (g *Gatekeeper) Carry(packet []byte) (carried bool) {
	for _, l := range g.links {
		carried = l.packets.Carry(packet) || carried
	}
	return carried
}

// skips reports whether an event isn't sent to the master. Rejected requests are never sent, because they
// change nothing.
func (r *route) skips(e limiter.Event) bool {
	return e == limiter.Rejected || r.Requests == (e == limiter.Settled)
}

// Run implements limiter.Sharer. It returns an error at once if the program has no ZeroMQ. A master that can't
// be reached isn't an error.
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

// sendAccounting sends accounting to the master until the context ends. ZeroMQ opens the connection, and
// reopens it if needed.
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
				l.counts.dropped.Add(1)
			}
		}
	}
}

// pollMaster updates whether the master is present, which means that it has subscribed.
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

// resync asks the master for the orders that it made before this connection, until the master has answered.
func (l *link) resync(s *socket, m *message) {
	if !l.counts.present.Load() {
		return
	}
	for _, r := range l.routes {
		if r.synced.Load() || r.asked >= giveUp {
			continue
		}
		if s.send(m.command(r.Domain, resync)) == nil { // if the queue is full, the next tick tries again
			r.asked++
		}
	}
}

// send reports one request to the master, unless the request is too old. Requests that a master missed while it
// was unreachable are never reported, so they don't delay clients later.
func (l *link) send(s *socket, m *message, now time.Time, c limiter.Charge) {
	r := l.route(c.Key.Class)
	switch {
	case r == nil || len(c.Key.ID) > MaxIdentifier:
		return
	case !l.counts.present.Load(), now.Sub(c.At) > maxAge:
		l.counts.dropped.Add(1)
		return
	}
	status, cost := accepted, time.Duration(-1)
	if c.Event == limiter.Settled {
		cost = c.NormalizedCost() // a master gives each identifier the same share, because it doesn't know standings
	}
	if c.Until.UnixMilli() > c.Received.UnixMilli() {
		status = delayed
	}
	if err := s.send(m.accounting(r.Domain, c, status, cost)); err != nil {
		l.counts.dropped.Add(1)
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

// receiveControl raises debts as ordered by the master, until the context ends.
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
			continue // the context is ending, or nothing arrived
		}
		l.handleControl(frames, in)
	}
	return nil
}

// handleControl handles one message from the master. Topics match by prefix, so it may be for another domain.
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
		l.counts.orders.Add(1) // counted after Raise, so every counted order already applies
	}
}

// LinkState is the state of the link to one master, as shown by the doctor.
type LinkState struct {
	Master  string   `json:"master"`
	Domains []string `json:"domains"`
	Present bool     `json:"present"` // the master is connected and has subscribed
	Synced  bool     `json:"synced"`  // the master has sent all orders that it had when it connected
	Sent    uint64   `json:"sent"`    // accounting messages
	Dropped uint64   `json:"dropped"` // accounting dropped because there was no room or no master, or because it was too old
	Orders  uint64   `json:"orders"`  // orders that an identifier must wait
	Past    uint64   `json:"past"`    // orders whose time had already passed when they arrived
	Unsound uint64   `json:"unsound"` // messages that are invalid, or for domains that this gatekeeper doesn't have
}

// Status implements limiter.Sharer. Its Detail is the result of State.
func (g *Gatekeeper) Status() limiter.SharingStatus { return statusOf(g.State()) }

// statusOf converts the state of the links to the form that all Sharers have in common.
func statusOf(links []LinkState) limiter.SharingStatus {
	all := limiter.SharingStatus{Up: make(map[string]bool, len(links)), Detail: links}
	for _, l := range links {
		all.Up["master "+l.Master] = l.Present
		all.Sent, all.Received = all.Sent+l.Sent, all.Received+l.Orders
		all.Dropped, all.Unsound = all.Dropped+l.Dropped, all.Unsound+l.Unsound
	}
	return all
}

// State returns a snapshot of the links.
func (g *Gatekeeper) State() []LinkState {
	var all []LinkState
	for _, l := range g.links {
		s := LinkState{
			Master: l.master.Accounting, Present: l.counts.present.Load(), Synced: true,
			Sent: l.counts.sent.Load(), Dropped: l.outbox.Dropped() + l.counts.dropped.Load(),
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
