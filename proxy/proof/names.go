// Package proof finds out where robots come from, off the path of requests: by the names of their
// addresses ([Names]) and by the lists that their operators publish ([Publishers]). No request
// waits for it: until there is an answer nothing is known, which neither helps nor harms the client.
package proof

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"

	"tempomat/classify"
	"tempomat/classify/robots"
)

const (
	confirmedFor = 24 * time.Hour     // a name holds before it is looked up again
	noneFor      = time.Hour          // the same that there is none
	silenceFirst = 5 * time.Second    // the same that the resolver did not answer; twice as long each time
	silenceMost  = 10 * time.Minute   // the longest of these
	heldFor      = 7 * 24 * time.Hour // a confirmed name, while the resolver does not answer

	mostNamed     = 8192
	mostOthers    = 8192
	mostWaiting   = 512
	mostOfNetwork = 32 // of a /24, or an IPv6 /48
)

// Resolver answers the questions, such as a net.Resolver. Its methods are called concurrently.
type Resolver interface {
	LookupAddr(ctx context.Context, addr string) (names []string, err error)
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Proofs are all that is known of where robots come from.
type Proofs struct {
	*Names
	*Publishers
}

// Run finds out until the context ends. It is called once.
func (p Proofs) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { p.Names.Run(ctx) })
	all.Go(func() { p.Publishers.Run(ctx) })
	all.Wait()
}

// SetRobots says of which robots something is to be found out, and whether servers of their
// operators may be asked.
func (p Proofs) SetRobots(of []robots.Robot, refresh bool) {
	var domains []string
	for _, r := range of {
		domains = append(domains, r.Domains...)
	}
	p.SetDomains(domains)
	if !refresh {
		of = nil
	}
	p.Ask(of)
}

// Names are the names of addresses that lead back to them: forward-confirmed reverse DNS. Only
// the owner of googlebot.com can have a name below that lead to an address of theirs.
//
// [Names.Host] never waits: it returns what is known, and leaves the rest to a few
// goroutines that [Names.Run] starts. So a resolver that is slow, dead or lies does not
// matter to a request:
//
//   - An address is looked up once at a time, and the answer is kept: a name for a day, no
//     name for an hour, and that the resolver did not answer for five seconds, longer each
//     time, up to ten minutes. A confirmed name is kept for a week while the resolver does
//     not answer.
//   - Only a name below one of the domains that matter is looked up in turn.
//   - There are at most ten questions a second, after the first twenty, and four at a time.
//   - At most 512 addresses wait to be looked up, 32 of one network: a thousand addresses
//     of one network do not keep others' answers away. An address that finds no place is
//     looked up when it comes again.
//   - At most 16384 addresses are remembered, those with a name apart from the others, which
//     cannot push them out: 4 MB.
//
// The methods may be called concurrently.
type Names struct {
	resolver Resolver
	domains  atomic.Pointer[[]string]
	pace     *rate.Limiter
	silences silences
	waiting  chan netip.Addr // first come, first served

	mu       sync.Mutex // guards the following; only requests that claim to be a robot's take it
	named    *simplelru.LRU[netip.Addr, entry]
	others   *simplelru.LRU[netip.Addr, entry]
	asking   map[netip.Addr]bool  // the addresses that wait or are being looked up
	networks map[netip.Prefix]int // and how many of them are of each network
}

// entry is what is known of an address.
type entry struct {
	name      string
	known     bool      // name is an answer
	silent    uint8     // how often in a row the resolver did not answer
	until     time.Time // it is not looked up again
	confirmed time.Time // the name was
}

// NewNames makes Names of which nothing is known, below no domain.
func NewNames(r Resolver) *Names {
	n := &Names{
		resolver: r,
		pace:     rate.NewLimiter(rate.Every(betweenAsking), burst),
		waiting:  make(chan netip.Addr, mostWaiting),
		asking:   make(map[netip.Addr]bool),
		networks: make(map[netip.Prefix]int),
	}
	n.named, _ = simplelru.NewLRU[netip.Addr, entry](mostNamed, nil) // it fails for a size below 1 only
	n.others, _ = simplelru.NewLRU[netip.Addr, entry](mostOthers, nil)
	n.domains.Store(&[]string{})
	return n
}

// SetDomains sets the domains of all robots, such as "googlebot.com", below which names matter. If they
// are others than before, addresses without a name are looked up again.
func (n *Names) SetDomains(domains []string) {
	next := make([]string, 0, len(domains))
	for _, d := range domains {
		next = append(next, strings.ToLower(d))
	}
	slices.Sort(next)
	next = slices.Compact(next)
	if before := *n.domains.Swap(&next); !slices.Equal(before, next) {
		n.AskAgain()
	}
}

// AskAgain has all addresses without a name looked up again: another resolver may know it.
func (n *Names) AskAgain() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.others.Purge()
}

// Host is the name of an address that leads back to it, in lower case, below one of the
// domains; empty: it has none. It is not known before it was looked up, which this starts
// if need be.
func (n *Names) Host(now time.Time, a netip.Addr) (name string, known bool) {
	a = a.Unmap().WithZone("")
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.entryLocked(a)
	if !now.Before(e.until) {
		n.pushLocked(a)
	}
	return e.name, e.known
}

func (n *Names) entryLocked(a netip.Addr) entry {
	e, ok := n.named.Get(a)
	if !ok {
		e, _ = n.others.Get(a)
	}
	return e
}

// pushLocked has an address wait to be looked up, if there is room.
func (n *Names) pushLocked(a netip.Addr) {
	of := classify.NetworkOf(a)
	if n.asking[a] || n.networks[of] >= mostOfNetwork {
		return
	}
	select {
	case n.waiting <- a:
		n.asking[a] = true
		n.networks[of]++
	default:
	}
}

// answer is what came of looking an address up.
type answer uint8

const (
	silence answer = iota // the resolver did not answer, or does not know
	none                  // it has no name that leads back to it
	found
)

// learn takes an answer in.
func (n *Names) learn(now time.Time, a netip.Addr, name string, got answer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.asking, a)
	of := classify.NetworkOf(a)
	if n.networks[of]--; n.networks[of] == 0 {
		delete(n.networks, of)
	}
	e := n.entryLocked(a)
	switch got {
	case found:
		e = entry{name: name, known: true, confirmed: now, until: now.Add(confirmedFor)}
	case none:
		e = entry{known: true, until: now.Add(noneFor)}
	case silence:
		if e.name == "" || now.Sub(e.confirmed) > heldFor {
			e.name, e.known = "", false
		}
		e.until = now.Add(min(silenceFirst<<e.silent, silenceMost))
		e.silent = min(e.silent+1, 10)
	}
	to, from := n.others, n.named
	if e.name != "" {
		to, from = n.named, n.others
	}
	from.Remove(a)
	to.Add(a, e)
}
