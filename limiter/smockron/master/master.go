// Package master is Smockron's master: the rules for identifiers, the state of each identifier, and a store
// that keeps that state across restarts.
//
// A [Master] gets the time as an argument, starts no goroutine and does no I/O. [Serve] connects it to the
// sockets of package smockron, which doesn't depend on this package.
package master

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"tempomat/limiter"
	"tempomat/limiter/smockron"
)

// DefaultMaxSkew is the default of Settings.MaxSkew.
const DefaultMaxSkew = 10 * time.Second

// Settings are the settings of a master. Configure replaces all of them.
type Settings struct {
	Domains []Domain // their names must be unique
	// MaxSkew is the largest accepted difference between a time in accounting and the master's clock. Messages
	// with earlier times were queued while the master was unreachable, and would delay clients for old
	// requests. Messages with later times come from a wrong clock, and would make all clients wait. The master
	// drops and counts both. It also drops requests whose reported delay exceeds the ordered one by more than
	// MaxSkew. The same applies to requests without a cost that arrived before the master started, because the
	// original gatekeepers keep them in their queues. Zero means DefaultMaxSkew.
	MaxSkew time.Duration
}

// Master applies the rules to identifiers. All methods may be called concurrently.
type Master struct {
	mu      sync.Mutex // guards the fields below
	skew    int64      // milliseconds
	began   int64      // when the master started to listen, in milliseconds since 1970
	domains map[string]*domain
	counts  Counts
	saver   saver
}

// New makes a master without any identifiers.
func New(s Settings) *Master {
	m := &Master{domains: make(map[string]*domain), saver: saver{unsaved: make(map[unsaved]struct{})}}
	m.Configure(s)
	return m
}

// Configure replaces the settings. If the rules of a domain don't change, its identifiers keep their state.
func (m *Master) Configure(s Settings) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.skew = cmp.Or(s.MaxSkew, DefaultMaxSkew).Milliseconds()
	old := m.domains
	m.domains = make(map[string]*domain, len(s.Domains))
	for _, n := range s.Domains {
		n.Identifiers = cmp.Or(n.Identifiers, DefaultIdentifiers)
		d := old[n.Name]
		if d == nil {
			d = &domain{saver: &m.saver, identifiers: make(map[string]*identifier)}
		}
		d.adopt(n)
		m.domains[n.Name] = d
	}
}

// Order makes an identifier wait until a given time. The master sends it to all gatekeepers.
type Order struct {
	Domain     string
	Identifier string
	Until      int64 // milliseconds since 1970, in the future when the order is made
}

// Account handles one message and returns the resulting order, if any. An invalid message, or one for an
// unknown domain, only increases a counter.
func (m *Master) Account(now time.Time, a *smockron.Accounting) (o Order, any bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := now.UnixMilli()
	d := m.domains[string(a.Domain)]
	if d == nil {
		m.counts.UnknownDomain++
		return o, false
	}
	if !m.timelyLocked(at, d.identifiers[string(a.Identifier)], a) {
		d.counts.Skewed++
		return o, false
	}
	d.counts.note(a)
	if a.Event == limiter.Rejected || len(d.Rules) == 0 {
		return o, false
	}
	x := d.find(a.Identifier)
	until := int64(0)
	for i := range d.Rules {
		if d.Rules[i].Kind == Credit && !a.HasCost {
			d.counts.NoCost++
			continue
		}
		until = max(until, d.Rules[i].account(&x.states[i], at, a))
	}
	m.saver.note(unsaved{d.Name, string(a.Identifier)})
	if until <= at {
		return o, false
	}
	x.until = max(x.until, until)
	d.counts.Throttled++
	return Order{d.Name, string(a.Identifier), until}, true
}

// timelyLocked reports whether the times of a message are close enough to the master's clock. x is the
// identifier's state, or nil if it has none. A delayed request may not report a later time than the master
// ordered. A message with a cost is sent when its request has ended, so the request may have arrived long
// before.
func (m *Master) timelyLocked(at int64, x *identifier, a *smockron.Accounting) bool {
	oldest, latest := max(at-m.skew, m.began), at
	if a.HasCost {
		oldest = at - m.skew - longestRun
	}
	if x != nil {
		latest = max(at, x.until)
	}
	return a.Received >= oldest && a.Received <= at+m.skew && a.Until <= latest+m.skew
}

// longestRun is the longest time for which a request may run, in milliseconds.
const longestRun = int64(time.Hour / time.Millisecond)

// begin records when the master starts to listen.
func (m *Master) begin(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.began = now.UnixMilli()
}

// reject counts an invalid message.
func (m *Master) reject(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.reject(err)
}

// orders returns all orders of a domain that still apply, or false if there is no such domain.
func (m *Master) orders(now time.Time, name string) (all []Order, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.Resyncs++
	d := m.domains[name]
	if d == nil {
		if name != smockron.PacketDomain {
			m.counts.UnknownDomain++
		}
		return nil, false
	}
	at := now.UnixMilli()
	for id, x := range d.identifiers {
		if x.until > at {
			all = append(all, Order{d.Name, id, x.until})
		}
	}
	return all, true
}

// sweepEach is how many identifiers of each domain one sweep checks.
const sweepEach = 20_000

// sweep forgets identifiers whose state no longer matters. It is called about ten times a second.
func (m *Master) sweep(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.domains {
		d.sweep(now.UnixMilli(), sweepEach)
	}
}

// DefaultIdentifiers is the default of Domain.Identifiers. An identifier takes about 200 bytes.
const DefaultIdentifiers = 1_000_000

// evictOf is how many identifiers of a full domain are compared to choose one to forget.
const evictOf = 8

// Domain is a resource with the rules for its identifiers. An identifier that exceeds any rule must wait.
// Without rules, requests are only counted.
type Domain struct {
	Name        string
	Rules       []Rule
	Identifiers int // the largest number of identifiers that are remembered; 0: DefaultIdentifiers
}

// domain is a Domain in use.
type domain struct {
	Domain
	saver       *saver // the master's
	identifiers map[string]*identifier
	gatekeepers int
	counts      DomainCounts
}

// identifier is the state of one identifier.
type identifier struct {
	states []state
	until  int64 // the latest time that was sent to gatekeepers, in milliseconds since 1970
	stored bool  // the state has been requested from the store
}

// expires returns the last time at which the state matters, in milliseconds since 1970.
func (x *identifier) expires() int64 {
	latest := int64(0)
	for i := range x.states {
		latest = max(latest, x.states[i].expires)
	}
	return latest
}

// find returns the state of an identifier, and makes one if there is none.
func (d *domain) find(name []byte) *identifier {
	if x := d.identifiers[string(name)]; x != nil {
		return x
	}
	if len(d.identifiers) >= d.Identifiers {
		d.evict()
	}
	x := &identifier{states: make([]state, len(d.Rules))}
	d.identifiers[string(name)] = x
	return x
}

// evict compares a few random identifiers, and forgets the one whose state matters for the shortest time. A
// client therefore can't get rid of a large debt by inventing identifiers.
func (d *domain) evict() {
	var victim string
	least, seen := int64(0), 0
	for name, x := range d.identifiers {
		if e := max(x.expires(), x.until); seen == 0 || e < least {
			victim, least = name, e
		}
		if seen++; seen == evictOf {
			break
		}
	}
	d.forget(victim)
	d.counts.Evicted++
}

// forget removes an identifier, even if it is unsaved.
func (d *domain) forget(name string) {
	delete(d.identifiers, name)
	delete(d.saver.unsaved, unsaved{d.Name, name})
}

// sweep forgets identifiers whose state no longer matters. It checks only some identifiers. Iteration over a
// map begins at a random place, so all identifiers are checked soon.
func (d *domain) sweep(now int64, most int) {
	for name, x := range d.identifiers {
		if x.expires() < now && x.until < now {
			d.forget(name)
		}
		if most--; most == 0 {
			return
		}
	}
}

// adopt applies new settings. The identifiers keep their state if the rules are the same.
func (d *domain) adopt(n Domain) {
	if !slices.Equal(d.Rules, n.Rules) {
		d.identifiers = make(map[string]*identifier)
	}
	d.Domain = n
}

// Counts are a master's counters since the start.
type Counts struct {
	Malformed     map[string]uint64 `json:"malformed,omitempty"` // invalid messages, by error
	UnknownDomain uint64            `json:"unknownDomain"`
	Resyncs       uint64            `json:"resyncs"`
	Overload      uint64            `json:"overload"` // accounting dropped because too much arrived; the oldest is dropped first
	Late          uint64            `json:"late"`     // orders whose time passed before they could be sent
}

// DomainCounts are the counters of one domain.
type DomainCounts struct {
	Accepted  uint64 `json:"accepted"`
	Delayed   uint64 `json:"delayed"`
	Rejected  uint64 `json:"rejected"`
	Throttled uint64 `json:"throttled"` // orders that an identifier must wait
	Skewed    uint64 `json:"skewed"`    // messages whose times are too far from the master's clock, or before its start
	NoCost    uint64 `json:"noCost"`    // messages without the cost that a credit rule needs
	Evicted   uint64 `json:"evicted"`   // identifiers forgotten because there were too many
}

func (c *DomainCounts) note(a *smockron.Accounting) {
	switch a.Event {
	case limiter.Delayed:
		c.Delayed++
	case limiter.Rejected:
		c.Rejected++
	default:
		c.Accepted++
	}
}

// reject counts an invalid message by its error.
func (c *Counts) reject(err error) {
	if c.Malformed == nil {
		c.Malformed = make(map[string]uint64)
	}
	c.Malformed[err.Error()]++
}

// State is the state of a master, as shown by the doctor.
type State struct {
	Counts  Counts        `json:"counts"`
	Unsaved int           `json:"unsaved"` // identifiers whose current state isn't in the store
	Lost    uint64        `json:"lost"`    // changes that were never saved, because there were too many
	Domains []DomainState `json:"domains"`
}

// DomainState is the state of a domain, as shown by the doctor.
type DomainState struct {
	Name        string       `json:"name"`
	Rules       []string     `json:"rules"`
	Identifiers int          `json:"identifiers"`
	Gatekeepers int          `json:"gatekeepers"` // gatekeepers that have subscribed to the domain
	Counts      DomainCounts `json:"counts"`
}

// IdentifierState is the state of an identifier, as shown by the doctor.
type IdentifierState struct {
	Identifier string  `json:"identifier"`
	Wait       float64 `json:"wait"`  // seconds until the identifier's requests may start; 0: at once
	Until      int64   `json:"until"` // the time until which the identifier must or had to wait, in milliseconds since 1970; 0: it never had to
}

// State returns a snapshot of the master.
func (m *Master) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := State{Counts: m.counts, Unsaved: len(m.saver.unsaved), Lost: m.saver.dropped}
	s.Counts.Malformed = maps.Clone(m.counts.Malformed)
	for _, name := range slices.Sorted(maps.Keys(m.domains)) {
		d := m.domains[name]
		v := DomainState{
			Name: name, Rules: []string{}, Identifiers: len(d.identifiers), Gatekeepers: d.gatekeepers, Counts: d.counts,
		}
		for i := range d.Rules {
			v.Rules = append(v.Rules, d.Rules[i].String())
		}
		s.Domains = append(s.Domains, v)
	}
	return s
}

// Identifiers returns the identifiers of a domain that wait longest, at most as many as most. It returns false
// if there is no such domain.
func (m *Master) Identifiers(now time.Time, name string, most int) ([]IdentifierState, bool) {
	m.mu.Lock()
	d := m.domains[name]
	all := []IdentifierState{}
	if d != nil {
		for id, x := range d.identifiers {
			wait := float64(x.until-now.UnixMilli()) / 1000
			all = append(all, IdentifierState{id, max(0, wait), x.until})
		}
	}
	m.mu.Unlock()
	slices.SortFunc(all, func(a, b IdentifierState) int {
		return cmp.Or(cmp.Compare(b.Wait, a.Wait), cmp.Compare(a.Identifier, b.Identifier))
	})
	return all[:min(len(all), most)], d != nil
}

// count sets the number of messages that were dropped because too many arrived.
func (m *Master) count(overload uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.Overload = overload
}

func (m *Master) late() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.Late++
}

// subscribed counts a gatekeeper that connected or disconnected.
func (m *Master) subscribed(name []byte, came bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.domains[string(name)]
	if d == nil {
		return
	}
	if came {
		d.gatekeepers++
	} else {
		d.gatekeepers = max(0, d.gatekeepers-1)
	}
}
