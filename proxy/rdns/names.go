package rdns

import (
	"context"
	"hash/maphash"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	confirmedFor = 24 * time.Hour     // a name holds before it is looked for again
	noneFor      = time.Hour          // no name
	silenceFirst = 5 * time.Second    // that nobody answered; twice as long each time
	silenceFor   = 10 * time.Minute   // likewise, at most
	fullFor      = time.Second        // that nobody could be asked
	heldFor      = 7 * 24 * time.Hour // a confirmed name, while nobody answers

	shards       = 64
	mostOfShard  = 256
	evictionLook = 8 // entries of which the worst one goes
)

// Resolver is who is asked, such as a net.Resolver. Its methods are called concurrently.
type Resolver interface {
	LookupAddr(ctx context.Context, addr string) (names []string, err error)
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Names are the names of addresses. The methods may be called concurrently.
type Names struct {
	resolver Resolver
	domains  atomic.Pointer[[]string]
	seed     maphash.Seed
	shards   [shards]shard
	queue    *queue
	pace     pace
	silences silences
}

type shard struct {
	mu  sync.Mutex // guards all
	all map[netip.Addr]*entry
}

// entry is what is known of an address.
type entry struct {
	name      string
	known     bool      // name is an answer
	asking    bool      // it is being asked for
	silent    uint8     // how often in a row nobody answered
	until     time.Time // it is not asked for again
	confirmed time.Time // the name was
}

// New makes Names of which nothing is known, below no domain.
func New(r Resolver) *Names {
	n := &Names{resolver: r, seed: maphash.MakeSeed(), queue: newQueue()}
	for i := range n.shards {
		n.shards[i].all = make(map[netip.Addr]*entry)
	}
	n.domains.Store(&[]string{})
	return n
}

// SetDomains tells below which domains, such as "googlebot.com", names matter. If they are
// others than before, addresses without a name are looked at again.
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

// AskAgain has all addresses without a name looked at again: another resolver may know it.
func (n *Names) AskAgain() {
	for i := range n.shards {
		s := &n.shards[i]
		s.mu.Lock()
		for _, e := range s.all {
			if e.name == "" {
				e.until, e.silent = time.Time{}, 0
			}
		}
		s.mu.Unlock()
	}
}

// Host is the name of an address that leads back to it, in lower case, below one of the
// domains; empty: it has none. It is not known before it was asked for, and it is asked
// for if need be.
func (n *Names) Host(now time.Time, a netip.Addr) (name string, known bool) {
	a = a.Unmap().WithZone("")
	s := n.shard(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.all[a]
	if e == nil {
		if e = s.addLocked(a); e == nil {
			return "", false
		}
	}
	if !e.asking && !now.Before(e.until) {
		if e.asking = n.queue.push(a); !e.asking {
			e.until = now.Add(fullFor)
		}
	}
	return e.name, e.known
}

func (n *Names) shard(a netip.Addr) *shard {
	b := a.As16()
	return &n.shards[maphash.Bytes(n.seed, b[:])%shards]
}

// addLocked makes an entry; nil: there is no room, as all are being asked for.
func (s *shard) addLocked(a netip.Addr) *entry {
	if len(s.all) >= mostOfShard && !s.evictLocked() {
		return nil
	}
	e := new(entry)
	s.all[a] = e
	return e
}

// evictLocked forgets the least of a few: one without a name rather than one with it, then
// the one whose answer is the oldest. Nobody can tell beforehand which few these are.
func (s *shard) evictLocked() bool {
	var worst *entry
	var at netip.Addr
	seen := 0
	for a, e := range s.all { // it begins anywhere
		if !e.asking && (worst == nil || e.name == "" && worst.name != "" ||
			(e.name == "") == (worst.name == "") && e.until.Before(worst.until)) {
			worst, at = e, a
		}
		if seen++; seen >= evictionLook && worst != nil {
			break
		}
	}
	delete(s.all, at)
	return worst != nil
}

// answer is what came of asking for an address.
type answer uint8

const (
	silence answer = iota // nobody answered, or nobody knows
	none                  // it has no name that leads back to it
	found
)

// learn takes an answer in.
func (n *Names) learn(now time.Time, a netip.Addr, name string, got answer) {
	s := n.shard(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.all[a]
	if e == nil {
		return // it cannot be, as those that are asked for are not forgotten
	}
	e.asking = false
	if e.silent++; got != silence {
		e.silent = 0
	}
	switch got {
	case found:
		e.name, e.known, e.confirmed, e.until = name, true, now, now.Add(confirmedFor)
	case none:
		e.name, e.known, e.until = "", true, now.Add(noneFor)
	case silence:
		if e.name == "" || now.Sub(e.confirmed) > heldFor {
			e.name, e.known = "", false
		}
		e.until = now.Add(min(silenceFirst<<min(e.silent-1, 10), silenceFor))
		e.silent = min(e.silent, 10)
	}
}
