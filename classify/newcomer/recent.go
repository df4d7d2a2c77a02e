package newcomer

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

const (
	// pause is how long an address is not redirected again. Who keeps no cookies
	// loses a round trip in so much time; the other people behind an address that
	// many share are not to wait for longer.
	pause = 3 * time.Minute

	recentWays = 8
	recentSets = 1 << 16 // 4 MB, once anybody was redirected
)

// recent remembers the addresses that were redirected recently, in a table of a
// fixed size. Where a flood of addresses has filled an address's set, has says
// that it was redirected: it is then served as a stranger, and never sent in a
// circle. At 1000 redirects a second a set is full for fewer than one address in
// a hundred, and who fills it cannot choose whose it is, as the hash has a secret
// key.
//
// Its methods may be called concurrently.
type recent struct {
	seed maphash.Seed
	size int                      // sets
	mu   sync.Mutex               // guards the following
	sets [][recentWays]redirected // none until there is somebody to remember
}

// redirected is an address.
type redirected struct {
	mark uint32 // of its hash, without the lowest bit, which tells that it came back; 0: nobody
	at   uint32 // Unix seconds
}

const cameBack = 1

func newRecent(sets int) *recent { return &recent{seed: maphash.MakeSeed(), size: sets} }

// has tells whether an address was redirected recently, or could not be remembered.
func (c *recent) has(now time.Time, client netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sets == nil {
		return false
	}
	at, mark := c.findLocked(client)
	full := true
	for _, e := range at {
		if !e.live(now) {
			full = false
		} else if e.mark&^cameBack == mark {
			return true
		}
	}
	return full
}

// add remembers an address, if there is room.
func (c *recent) add(now time.Time, client netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sets == nil {
		c.sets = make([][recentWays]redirected, c.size)
	}
	set, mark := c.findLocked(client)
	var place *redirected
	for i := range set {
		e := &set[i]
		if e.mark&^cameBack == mark {
			place = e
			break
		}
		if place == nil && !e.live(now) {
			place = e
		}
	}
	if place != nil {
		*place = redirected{mark: mark, at: uint32(now.Unix())} //nolint:gosec // until 2106
	}
}

// comeBack tells whether an address that was redirected recently is back for the
// first time since.
func (c *recent) comeBack(now time.Time, client netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sets == nil {
		return false
	}
	set, mark := c.findLocked(client)
	for i := range set {
		if e := &set[i]; e.mark == mark && e.live(now) {
			e.mark |= cameBack
			return true
		}
	}
	return false
}

// findLocked returns the set of an address (IPv6: of its /64, any address of which
// a client can take) and how it is marked there.
func (c *recent) findLocked(client netip.Addr) (set *[recentWays]redirected, mark uint32) {
	raw := client.As16()
	text := raw[:]
	if !client.Is4() {
		text = raw[:8]
	}
	h := maphash.Bytes(c.seed, text)
	return &c.sets[h%uint64(c.size)], uint32(h>>32)&^3 | 2 //nolint:gosec // sizes are positive, the upper half
}

// live tells whether it counts. What lies in the future, as the clock was set back,
// does as long as what lies in the past.
func (e redirected) live(now time.Time) bool {
	age := now.Sub(time.Unix(int64(e.at), 0))
	return e.mark != 0 && age < pause && age > -pause
}
