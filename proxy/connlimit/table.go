// Package connlimit bounds how many connections are open, and decides which one is
// closed when one more comes.
//
// Below the bound no connection is touched. At the bound a newcomer is still let in, and a
// connection is closed in its place (shed): one of the client that holds most. A bound that
// turned newcomers away would let the clients that have filled it keep all others out, and a
// bound for each address would be too low for an office or too high for an attacker.
//
// # Which client gives
//
// An address weighs as much as it holds connections; one of IPv6 stands for its /64. An
// address that holds few (up to 8 to 32, by the bound) does not weigh anything: a browser
// opens six, and what is fair among browsers is not a question of numbers.
//
// A flood may come from many addresses that hold few each. So a network has a weight
// too: the 16th part of what it holds for a /24 (IPv6: /48), the 64th part for a /16
// (/32). It gives only where it weighs more than any address: the neighbours of an
// attacker are not meant, nor are the customers of a large provider. In it, the heaviest
// address gives.
//
// An address whose connections the caller trusts, a balancer's, brings many clients. It
// counts as one that holds few, however many it holds.
//
// An address gives the connection that has waited for its client for longest, be it for the
// next request or for the first one. That is nearly always one between two requests, whose
// closing breaks nothing. Where only addresses that hold few have one that waits, the one of
// theirs that has waited for longest goes.
//
// A connection with a request under way is not shed, except of an address that holds more than
// a quarter of the bound. Where only addresses that hold few have one that waits, newcomers
// above all, the address that holds most gives a request under way, if it holds many: more than
// a 64th of the bound. Or a few addresses with uploads that never end would keep all others out.
// If no address holds as many, it is the /24 that has more than an eighth of the bound, or
// else the /16 that has more than a quarter. If none has as many, the newcomer itself is closed.
//
// # How it is found
//
// Idle and Busy, which are called for each request, set one word of the connection and
// take no lock. Enter and Leave count, for the address and its two networks. Who is heaviest is
// looked up among 64 random connections, in small tables among all, and what it gives so too: who
// holds more than a twentieth of a full table is found, whatever addresses an attacker has, and a
// newcomer takes some 20 µs. A connection takes less than 360 bytes even if all are of different
// networks.
//
// Memory is not counted here. What an idle connection holds is the same for all, and
// so bounded by their number; what a request holds is bounded where it is taken, with
// a budget for each address (package spool), and is given back by waiting, not by
// closing connections.
package connlimit

import (
	"io"
	"net/netip"
	"sync"
	"time"
)

const (
	// An address that holds few connections weighs nothing: the 256th part of the bound, but
	// no less than two browsers open, and no more than a household.
	fewPart, fewLeast, fewMost = 256, 8, 32
	// An address that holds more than the fourth part of the bound loses requests under way as well.
	largePart = 4
	// One that holds more than the 64th part, and four times as many as count as few, loses them
	// where otherwise only addresses that hold few would lose anything.
	manyPart, manyFew = 64, 4
	// So do the networks where more than the eighth part of the bound is, if narrow, or the
	// fourth part, if wide.
	crowdNarrow, crowdWide = 8, 4
	// What a network weighs: one for so many of its connections.
	narrowPart, widePart = 16, 64
	// heavyLooks is how many of the heaviest addresses are looked at.
	heavyLooks = 4
	// ceiling is the largest bound.
	ceiling = 1 << 24
)

// Table is all connections that are open. All methods may be called concurrently.
type Table struct {
	start                  time.Time
	most, few, many, large int32
	looks                  int

	mu            sync.Mutex               // guards the following
	all           group                    // of no kind
	groups        [kinds]map[uint64]*group // by their keys
	shed, refused uint64
}

// New makes a Table for at most so many connections, 1 to 16,777,216: what is beyond is
// taken as the nearest. All later times are after now.
func New(now time.Time, most int) *Table {
	n := int32(min(max(most, 1), ceiling))
	few := min(max(n/fewPart, fewLeast), fewMost)
	t := &Table{start: now, most: n, few: few, many: max(n/manyPart, manyFew*few), large: max(n/largePart, few), looks: looks}
	for k := range kinds {
		t.groups[k] = make(map[uint64]*group)
	}
	return t
}

// Enter adds a connection from an address, which waits for its client now. The zero Addr,
// for Unix sockets, is one address like another. If trusted, the address brings many
// clients.
//
// If too many are open then, one is closed, by its Close on the caller's goroutine. If
// that is the newcomer, Enter returns nil. Otherwise call Leave at the end, also if the
// connection was closed to make room.
func (t *Table) Enter(now time.Time, from netip.Addr, trusted bool, closer io.Closer) *Conn {
	c := &Conn{table: t, closer: closer}
	c.state.Store(waitingSince(t.at(now)))
	if out := t.place(c, keyOf(from), trusted); out != nil {
		_ = out.closer.Close() // it is given up
		if out == c {
			return nil
		}
	}
	return c
}

// place adds a connection and returns the one that has to go; nil: none has to.
func (t *Table) place(c *Conn, key uint64, trusted bool) *Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k := range kinds {
		in := key >> (whole.bits() - k.bits())
		g := t.groups[k][in]
		if g == nil {
			g = &group{key: in}
			t.groups[k][in] = g
		}
		c.groups[k] = g
		g.add(c, k)
	}
	t.all.add(c, kinds)
	c.groups[whole].trusted = trusted
	t.count(c)
	if len(t.all.conns) <= int(t.most) {
		return nil
	}
	out := t.removeNext()
	if out == nil { // none that was looked at has anything to give
		out = c
		c.state.Store(gone)
		t.remove(c)
	}
	if out == c {
		t.refused++
	} else {
		t.shed++
	}
	return out
}

// Shed closes one connection, the one that Enter would. It is for a caller that has no
// descriptor left though fewer are open than there may be. It returns false if none can
// be closed.
func (t *Table) Shed() bool {
	t.mu.Lock()
	out := t.removeNext()
	if out != nil {
		t.shed++
	}
	t.mu.Unlock()
	if out == nil {
		return false
	}
	_ = out.closer.Close() // it is given up
	return true
}

// removeNext removes the connection that goes next; nil: none can. t.mu is held.
func (t *Table) removeNext() *Conn {
	for range heavyLooks { // most often once: what is chosen may have a request in the meantime
		c, cuts := t.choose()
		if c == nil {
			return nil
		}
		if c.give(cuts) {
			t.remove(c)
			return c
		}
	}
	return nil
}

// choose returns the connection that goes next, and whether a request that is under way there is
// to be cut; nil: none can. t.mu is held.
func (t *Table) choose() (c *Conn, cuts bool) {
	seen := t.sample(t.all.conns)
	var net *group
	weight := t.few
	for k, part := range [kinds]int32{narrow: narrowPart, wide: widePart} {
		if part == 0 {
			continue
		}
		if all := heaviest(seen, kind(k), (weight+1)*part-1); len(all) > 0 {
			net, weight = all[0], all[0].counted/part
		}
	}
	addresses := heaviest(seen, whole, t.few)
	for _, a := range addresses[:min(heavyLooks, len(addresses))] {
		if weight > a.counted && net != a.conns[0].groups[narrow] && net != a.conns[0].groups[wide] {
			continue
		}
		if c = oldest(t.sample(a.conns)); c != nil {
			return c, false
		}
		if a.counted > t.large {
			return a.conns[0], true
		}
	}
	if net != nil {
		if c = ofHeaviest(t.sample(net.conns), false); c != nil {
			return c, false
		}
	}
	if len(addresses) > 0 && addresses[0].counted > t.many {
		return addresses[0].conns[0], true // none of those that were looked at waits
	}
	if c, cuts = t.ofCrowd(seen); c != nil {
		return c, cuts
	}
	return oldest(seen), false
}

// ofCrowd returns what a network gives, before addresses that hold few, that has a large part of all.
func (t *Table) ofCrowd(seen []*Conn) (c *Conn, cuts bool) {
	for k, part := range [kinds]int32{narrow: crowdNarrow, wide: crowdWide} {
		if part == 0 {
			continue
		}
		for _, net := range heaviest(seen, kind(k), max(t.most/part, t.few)) {
			if net.counted == net.conns[0].groups[whole].counted {
				continue // what an address holds alone is for others to judge
			}
			for _, cuts := range []bool{false, true} {
				if c = ofHeaviest(t.sample(net.conns), cuts); c != nil {
					return c, cuts
				}
			}
		}
	}
	return nil, false
}

// count has the groups of a connection count what the address holds. t.mu is held.
func (t *Table) count(c *Conn) {
	a := c.groups[whole]
	n := int32(len(a.conns)) //nolint:gosec // at most Table.most
	if a.trusted {
		n = min(n, t.few)
	}
	more := n - a.counted
	for _, g := range c.groups {
		g.counted += more
	}
}

// remove takes out a connection that is gone. t.mu is held.
func (t *Table) remove(c *Conn) {
	t.all.remove(c, kinds)
	for k, g := range c.groups {
		g.remove(c, kind(k))
	}
	t.count(c)
	for k, g := range c.groups {
		if len(g.conns) == 0 {
			g.conns = nil
			delete(t.groups[k], g.key)
		}
	}
	c.groups = [kinds]*group{}
}

// at is a time in nanoseconds.
func (t *Table) at(now time.Time) int64 { return int64(now.Sub(t.start)) }
