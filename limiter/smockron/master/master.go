package master

import (
	"cmp"
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
	// MaxSkew is by how much the times in accounting may differ from the master's.
	// What is older has been in some queue while the master was away, and would
	// punish for the past; what is later would make everybody wait for a clock that
	// is wrong. Both are dropped and counted. So is a request that is said to be delayed
	// until a later time than it was told to be, by more than MaxSkew, and one without a cost
	// that came before the master was there: the originals keep such in their queues. Zero is
	// DefaultMaxSkew, below zero takes every time.
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

// New makes a master that knows nothing of anybody.
func New(s Settings) *Master {
	m := &Master{domains: make(map[string]*domain)}
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

// delayOrder is an identifier that has to wait, to be told to all gatekeepers.
type delayOrder struct {
	domain     string
	identifier string
	until      int64 // milliseconds since 1970, always to come
}

// take accounts for one message and returns the order that it causes, if any. A
// message that is not sound, or of a domain that nobody configured, changes
// nothing but a count.
func (m *Master) take(now time.Time, a *smockron.Accounting) (o delayOrder, any bool) {
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
	return delayOrder{d.Name, string(a.Identifier), until}, true
}

// timelyLocked tells whether the message's times are near the master's. The time
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

// reject counts a message that is not sound.
func (m *Master) reject(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.reject(err)
}

// orders are all those of a domain that hold now; false if there is no such
// domain.
func (m *Master) orders(now time.Time, name string) (all []delayOrder, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.Resyncs++
	d := m.domains[name]
	if d == nil {
		m.counts.UnknownDomain++
		return nil, false
	}
	at := now.UnixMilli()
	for id, x := range d.identifiers {
		if x.until > at {
			all = append(all, delayOrder{d.Name, id, x.until})
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
