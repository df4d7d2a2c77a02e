package newcomer

import (
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// pause is the shortest time between two redirects of an address. A client without cookies is therefore
	// redirected at most once in this time. It is short because other people may share the address.
	pause = 3 * time.Minute

	mostRecent = 1 << 16 // 10 MB
)

// recent stores the addresses that were redirected last. If there are too many, it forgets the oldest one: by
// then, tens of thousands of others have been redirected. Its methods may be called concurrently.
type recent struct {
	mu sync.Mutex // guards the fields below
	of *simplelru.LRU[block, redirected]
}

// block is an IPv4 address, or an IPv6 /64, because a client can use any address in its /64.
type block [16]byte

func keyOf(client netip.Addr) block {
	raw := client.As16()
	if !client.Is4() {
		clear(raw[8:])
	}
	return raw
}

// redirected is the entry of recent for an address.
type redirected struct {
	at       int64 // Unix seconds
	cameBack bool
}

func newRecent() *recent {
	of, _ := simplelru.NewLRU[block, redirected](mostRecent, nil) // fails only for a size below 1
	return &recent{of: of}
}

// has reports whether an address was redirected recently.
func (c *recent) has(now time.Time, client netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.findLocked(now, keyOf(client))
	return ok
}

// add remembers an address.
func (c *recent) add(now time.Time, client netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of.Add(keyOf(client), redirected{at: now.Unix()})
}

// comeBack reports whether an address comes back for the first time since it was redirected, and records that
// it did.
func (c *recent) comeBack(now time.Time, client netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := keyOf(client)
	e, ok := c.findLocked(now, a)
	if !ok || e.cameBack {
		return false
	}
	c.of.Add(a, redirected{e.at, true})
	return true
}

// findLocked finds an address that was redirected recently. The time of a redirect may be in the future if the
// clock has been set back since.
func (c *recent) findLocked(now time.Time, a block) (redirected, bool) {
	e, ok := c.of.Peek(a)
	return e, ok && now.Sub(time.Unix(e.at, 0)).Abs() < pause
}
