package newcomer

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// pause is how long an address is not redirected again. A client that keeps no cookies
	// loses a round trip in that time; the other people behind a shared address should not wait
	// longer.
	pause = 3 * time.Minute

	mostRecent = 1 << 17 // addresses of each generation: 12 MB in all, under a flood
)

// recent remembers the addresses that were redirected recently, in two generations of
// bounded size. Where a flood of addresses has filled both, has says
// that an address was redirected: it is then served as a stranger, and never sent in a
// circle.
//
// Its methods may be called concurrently.
type recent struct {
	most     int
	mu       sync.Mutex // guards the following
	now, old map[block]redirected
	begun    time.Time // when now was begun
}

// block is as what an address is remembered: of IPv6 it is its /64, any address of which a client can take.
type block [16]byte

func keyOf(client netip.Addr) block {
	raw := client.As16()
	if !client.Is4() {
		clear(raw[8:])
	}
	return raw
}

// redirected is what is remembered of an address.
type redirected struct {
	at       int64 // Unix seconds
	cameBack bool
}

func newRecent(most int) *recent { return &recent{most: most} }

// has reports whether an address was redirected recently, or could not be remembered.
func (c *recent) has(now time.Time, client netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.findLocked(now, keyOf(client)) != nil || len(c.now) >= c.most && !c.endedLocked(now)
}

// add remembers an address, if there is room.
func (c *recent) add(now time.Time, client netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == nil || c.endedLocked(now) {
		c.now, c.old, c.begun = make(map[block]redirected), c.now, now
	}
	if len(c.now) < c.most {
		c.now[keyOf(client)] = redirected{at: now.Unix()}
	}
}

// comeBack reports whether an address that was redirected recently is back for the
// first time since.
func (c *recent) comeBack(now time.Time, client netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := keyOf(client)
	in := c.findLocked(now, a)
	e := in[a]
	if in == nil || e.cameBack {
		return false
	}
	in[a] = redirected{e.at, true}
	return true
}

// findLocked is the generation that knows an address; nil: none does. What lies in the future, as the
// clock was set back, counts for as long as what lies in the past.
func (c *recent) findLocked(now time.Time, a block) map[block]redirected {
	for _, in := range []map[block]redirected{c.now, c.old} {
		if e, ok := in[a]; ok {
			if now.Sub(time.Unix(e.at, 0)).Abs() < pause {
				return in
			}
			return nil
		}
	}
	return nil
}

// endedLocked reports whether the old generation, if there is one, counts no more: the present one takes its place.
func (c *recent) endedLocked(now time.Time) bool { return now.Sub(c.begun).Abs() >= pause }
