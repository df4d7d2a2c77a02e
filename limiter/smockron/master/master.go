// Package master is Smockron's master: it holds the rules that identifiers must keep, what it
// knows of each, and a store that keeps that beyond its life.
//
// A [Master] is told the time, starts no goroutine and does no I/O; [Serve] has it work on the
// wire of package smockron, which knows nothing of masters.
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

// DefaultMaxSkew is how far a gatekeeper's clock may be off, unless the master is
// told otherwise.
const DefaultMaxSkew = 10 * time.Second

// Settings are what a master is told to do. They are replaced as a whole.
type Settings struct {
	Domains []Domain // no two of one name
	// MaxSkew is by how much the times in accounting may differ from the master's. Older
	// messages have been in a queue while the master was away, and would punish for the past;
	// later ones would make all clients wait for a wrong clock. Both are dropped and counted.
	// So are a request that was allegedly delayed beyond its order by more than MaxSkew, and
	// one without a cost that came before the master started: the originals keep such in their
	// queues. Zero is DefaultMaxSkew, below zero takes every time.
	MaxSkew time.Duration
}

// Master keeps the rules, and what it knows of each identifier. It is told the
// time, starts no goroutine and does no I/O. All methods may be called
// concurrently.
type Master struct {
	mu      sync.Mutex // guards the following
	skew    int64      // milliseconds, or anySkew
	began   int64      // when it was there to be told, in milliseconds since 1970
	domains map[string]*domain
	counts  Counts
	saver   saver
}

// anySkew takes every time.
const anySkew = -1

// New makes a master without any identifiers.
func New(s Settings) *Master {
	m := &Master{domains: make(map[string]*domain), saver: saver{unsaved: make(map[*identifier]unsaved)}}
	m.Configure(s)
	return m
}

// Configure replaces the settings. Domains whose rules stay the same keep what is
// known of their identifiers.
func (m *Master) Configure(s Settings) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.skew = cmp.Or(s.MaxSkew, DefaultMaxSkew).Milliseconds(); s.MaxSkew < 0 {
		m.skew = anySkew // a fraction of a millisecond would become 0, which takes none
	}
	old := m.domains
	m.domains = make(map[string]*domain, len(s.Domains))
	for _, n := range s.Domains {
		n.Identifiers = cmp.Or(n.Identifiers, DefaultIdentifiers)
		d := old[n.Name]
		if d == nil {
			d = &domain{identifiers: make(map[string]*identifier)}
		}
		d.adopt(n)
		m.domains[n.Name] = d
	}
	m.saver.forget(m.domains)
}

// Order is an identifier that has to wait, to be told to all gatekeepers.
type Order struct {
	Domain     string
	Identifier string
	Until      int64 // milliseconds since 1970, always to come
}

// Account accounts for one message and returns the order that it causes, if any. An invalid
// message, or one of a domain that isn't configured, changes only a count.
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
	m.saver.note(d, a.Identifier, x)
	if until <= at {
		return o, false
	}
	x.until = max(x.until, until)
	d.counts.Throttled++
	return Order{d.Name, string(a.Identifier), until}, true
}

// timelyLocked reports whether the message's times are near the master's. The time
// until which a request is delayed is one that the master told of its identifier; x is what
// is known of that, nil: nothing. With what it cost, a request is told of when it is done, and
// may have come long before.
func (m *Master) timelyLocked(at int64, x *identifier, a *smockron.Accounting) bool {
	if m.skew == anySkew {
		return true
	}
	oldest, latest := max(at-m.skew, m.began), at
	if a.HasCost {
		oldest = at - m.skew - longestRun
	}
	if x != nil {
		latest = max(at, x.until)
	}
	return a.Received >= oldest && a.Received <= at+m.skew && a.Until <= latest+m.skew
}

// longestRun is the longest in milliseconds that a request can have run.
const longestRun = int64(time.Hour / time.Millisecond)

// begin says that the master is there to be told from now on.
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

// orders are all those of a domain that hold now; false if there is no such
// domain.
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

// sweepEach is how many identifiers of a domain are looked at in one sweep.
const sweepEach = 20_000

// sweep forgets identifiers that mean nothing any more; some ten times a second.
func (m *Master) sweep(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.domains {
		d.sweep(now.UnixMilli(), sweepEach)
	}
}

// DefaultIdentifiers is how many identifiers of a domain are remembered, unless
// it is told otherwise. Each takes about 200 bytes.
const DefaultIdentifiers = 1_000_000

// evictOf is among how many the one to forget is looked for when a domain is full.
const evictOf = 8

// Domain is a resource, and the rules for its identifiers: an identifier that breaks one of
// them must wait. Without rules it is only counted.
type Domain struct {
	Name        string
	Rules       []Rule
	Identifiers int // most that are remembered; 0: DefaultIdentifiers
}

// domain is a Domain at work.
type domain struct {
	Domain
	identifiers map[string]*identifier
	gatekeepers int
	counts      DomainCounts
}

// identifier is what is known of one.
type identifier struct {
	states []state
	until  int64 // the latest that was told, in milliseconds since 1970
	stored bool  // the store was asked for it
}

// expires is the last moment at which it matters.
func (x *identifier) expires() int64 {
	latest := int64(0)
	for i := range x.states {
		latest = max(latest, x.states[i].expires)
	}
	return latest
}

// find returns what is known of an identifier, and begins to know it if nothing is.
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

// evict forgets, of a few random identifiers, the one that matters for the shortest time:
// inventing identifiers does not wash away the largest debt.
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
	delete(d.identifiers, victim)
	d.counts.Evicted++
}

// sweep forgets some of those that no longer matter. Go walks a map from a random place, so
// each is soon looked at.
func (d *domain) sweep(now int64, most int) {
	for name, x := range d.identifiers {
		if x.expires() < now && x.until < now {
			delete(d.identifiers, name)
		}
		if most--; most == 0 {
			return
		}
	}
}

// adopt continues with other settings. The identifiers' states stay if the rules are the same.
func (d *domain) adopt(n Domain) {
	if !slices.Equal(d.Rules, n.Rules) {
		d.identifiers = make(map[string]*identifier)
	}
	d.Domain = n
}

// Counts is what a master counted since it began.
type Counts struct {
	Malformed     map[string]uint64 `json:"malformed,omitempty"` // invalid messages, by fault
	UnknownDomain uint64            `json:"unknownDomain"`
	Resyncs       uint64            `json:"resyncs"`
	Overload      uint64            `json:"overload"` // accounting that was dropped, oldest first, because there was too much
	Late          uint64            `json:"late"`     // orders that were past before they could be sent
}

// DomainCounts is what it counted of a domain.
type DomainCounts struct {
	Accepted  uint64  `json:"accepted"`
	Delayed   uint64  `json:"delayed"`
	Rejected  uint64  `json:"rejected"`
	Throttled uint64  `json:"throttled"` // orders to wait that were made
	Skewed    uint64  `json:"skewed"`    // messages whose times are too far from the master's, or from before it was there
	NoCost    uint64  `json:"noCost"`    // messages without the cost that a credit rule needs
	Evicted   uint64  `json:"evicted"`   // identifiers forgotten as there were too many
	Delay     float64 `json:"delay"`     // seconds that gatekeepers delayed requests, in sum
}

func (c *DomainCounts) note(a *smockron.Accounting) {
	switch a.Event {
	case limiter.Delayed:
		c.Delayed++
		c.Delay += max(0, float64(a.Until-a.Received)/1000)
	case limiter.Rejected:
		c.Rejected++
	default:
		c.Accepted++
	}
}

// reject counts a message by what is wrong with it.
func (c *Counts) reject(err error) {
	if c.Malformed == nil {
		c.Malformed = make(map[string]uint64)
	}
	c.Malformed[err.Error()]++
}

// State is what the doctor shows of a master.
type State struct {
	Counts  Counts        `json:"counts"`
	Unsaved int           `json:"unsaved"` // identifiers that the store does not have as they are
	Lost    uint64        `json:"lost"`    // changes that were never saved, because there were too many
	Domains []DomainState `json:"domains"`
}

// DomainState is what it shows of a domain.
type DomainState struct {
	Name        string       `json:"name"`
	Rules       []string     `json:"rules"`
	Identifiers int          `json:"identifiers"`
	Gatekeepers int          `json:"gatekeepers"` // that subscribed to it
	Counts      DomainCounts `json:"counts"`
}

// IdentifierState is what it shows of an identifier.
type IdentifierState struct {
	Identifier string  `json:"identifier"`
	Wait       float64 `json:"wait"`  // seconds until it may ask again; 0: at once
	Until      int64   `json:"until"` // when that is or was, in milliseconds since 1970; 0: it never had to wait
}

// State is a picture of the whole.
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

// Identifiers are those of a domain that wait longest, at most so many, and false
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

// count takes over how much accounting was dropped as there was too much.
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

// subscribed notes a gatekeeper that came or went.
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
