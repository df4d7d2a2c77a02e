// Package proof verifies robots: by the DNS names of their addresses ([Names]), by the lists of addresses
// that their operators publish ([Publishers]), and by signatures ([Signers]). Requests never wait for it.
// Until a robot is verified, or verification has failed, the client is treated like any other.
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
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"tempomat/classify"
	"tempomat/classify/robots"
)

const (
	confirmedFor = 24 * time.Hour     // time after which a confirmed name is looked up again
	noneFor      = time.Hour          // time after which an address without a name is looked up again
	silenceFirst = 5 * time.Second    // time until the first retry if the resolver does not answer; doubles with each retry
	silenceMost  = 10 * time.Minute   // longest time until a retry
	heldFor      = 7 * 24 * time.Hour // how long a confirmed name stays valid while the resolver does not answer

	mostNamed     = 8192
	mostOthers    = 8192
	mostWaiting   = 512
	mostOfNetwork = 32 // how many addresses of a /24, or an IPv6 /48, may wait to be looked up
)

// Resolver looks up names and addresses. net.Resolver implements it. Its methods are called concurrently.
type Resolver interface {
	LookupAddr(ctx context.Context, addr string) (names []string, err error)
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Proofs combines Names and Publishers.
type Proofs struct {
	*Names
	*Publishers
}

// Run works until the context ends. It must be called once.
func (p Proofs) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { p.Names.Run(ctx) })
	all.Go(func() { p.Publishers.Run(ctx) })
	all.Wait()
}

// SetRobots sets the robots to verify. If refresh is set, the lists and keys that their operators publish
// are fetched.
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

// Names finds the names of addresses by forward-confirmed reverse DNS: a name counts only if looking it up
// returns the address. This proves the robot, because only the owner of googlebot.com can set the addresses
// of names below that domain.
//
// [Names.Host] never waits. It returns the known names, and leaves lookups to a few goroutines of [Names.Run].
// A resolver that is slow, fails or lies therefore delays no request:
//
//   - An address is looked up once at a time, and the answer is kept: a name for a day, and the lack
//     of a name for an hour. If the resolver does not answer, the lookup is repeated after five
//     seconds, and then at growing intervals of up to ten minutes. Until then a confirmed name is kept
//     for up to a week.
//   - Of the names that an address has, only those below the domains of robots are looked up.
//   - After a burst of twenty there are at most ten queries a second, and four at a time.
//   - At most 512 addresses wait to be looked up, 32 of one network, so a network can't keep the
//     others waiting. An address that finds no place is looked up when its client returns.
//   - At most 16384 addresses are remembered, in 4 MB. Those with a name are kept separately, so others
//     can't evict them.
//
// The methods may be called concurrently.
type Names struct {
	resolver Resolver
	domains  atomic.Pointer[[]string]
	pace     *rate.Limiter
	log      *zap.Logger
	waiting  chan netip.Addr

	mu       sync.Mutex // guards the fields below; only requests that name a robot take it
	named    *simplelru.LRU[netip.Addr, entry]
	others   *simplelru.LRU[netip.Addr, entry]
	asking   map[netip.Addr]bool  // addresses that wait or are being looked up
	networks map[netip.Prefix]int // number of addresses in asking, by network
	silent   int                  // number of queries in a row without an answer
	quiet    time.Time            // time until which missing answers aren't logged again
}

// entry is the state of an address in Names.
type entry struct {
	name      string
	known     bool      // whether the resolver has answered, even if only that there is no name
	silent    uint8     // number of lookups in a row without an answer
	until     time.Time // when the address is looked up again
	confirmed time.Time // when the name was confirmed
}

// NewNames makes Names that have no domains yet.
func NewNames(r Resolver, log *zap.Logger) *Names {
	n := &Names{
		resolver: r,
		log:      log,
		pace:     rate.NewLimiter(rate.Every(betweenAsking), burst),
		waiting:  make(chan netip.Addr, mostWaiting),
		asking:   make(map[netip.Addr]bool),
		networks: make(map[netip.Prefix]int),
	}
	n.named, _ = simplelru.NewLRU[netip.Addr, entry](mostNamed, nil) // fails only for a size below 1
	n.others, _ = simplelru.NewLRU[netip.Addr, entry](mostOthers, nil)
	n.domains.Store(&[]string{})
	return n
}

// SetDomains sets the domains of all robots, such as "googlebot.com". If the domains change, addresses
// without a name are looked up again.
func (n *Names) SetDomains(domains []string) {
	next := make([]string, 0, len(domains))
	for _, d := range domains {
		next = append(next, strings.ToLower(d))
	}
	slices.Sort(next)
	next = slices.Compact(next)
	if before := *n.domains.Swap(&next); !slices.Equal(before, next) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.others.Purge()
	}
}

// Host returns the confirmed name of an address below one of the domains, in lower case, or "" if there is
// none. If there is no current answer for the address, Host starts a lookup and doesn't wait for it.
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

// pushLocked adds an address to those that wait to be looked up, if there is room.
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

// answer is the result of looking up an address.
type answer uint8

const (
	silence answer = iota // the resolver did not answer, or failed
	none                  // the address has no confirmed name
	found
)

// learn stores an answer.
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
