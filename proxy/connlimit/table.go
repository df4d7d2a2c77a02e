// Package connlimit bounds how many connections are open, and decides which one is closed when
// one more arrives.
//
// Below the bound, it closes none. At the bound, it still accepts a new connection, and makes room by closing a
// connection of the client that holds most. If it rejected new connections instead, the clients that have
// filled the table would keep all others out. A fixed bound for each address would be too low for an office or
// too high for an attacker.
//
// # Which client loses a connection
//
// The greater the weight of an address or network, the sooner it loses a connection. The weight of an address
// is the number of its connections. An IPv6 address stands for its /64. An address that holds few (8 to 32,
// depending on the bound) has no weight, because a browser opens six.
//
// A flood may come from many addresses that hold few each. Therefore a network also has weight: a 16th of its
// number of connections for a /24 (IPv6: /48), and a 64th for a /16 (/32). These parts are small, because an
// attacker's neighbours and the customers of a large provider have done nothing wrong. Within a network, the
// address that holds most loses a connection.
//
// An address that the caller trusts, such as a load balancer's, serves many clients. It never counts as
// holding more than few.
//
// Connections are closed in this order. In each step, the one from the address or network with
// the greatest weight is closed first, then the one that has waited longest for its client:
//
//  1. a connection that waits for its client, from an address or network with weight. Such a connection is
//     nearly always between two requests, so closing it breaks nothing. This step includes connections that
//     serve a request, if their address holds more than a quarter of the bound.
//  2. a connection that waits for its client, from a crowd. A crowd is an address that holds more than a
//     64th of the bound, a /24 with more than an eighth, or a /16 with more than a quarter.
//  3. a connection that serves a request, from a crowd. Without this step, a few addresses with uploads that
//     never end would keep all others out.
//  4. a connection that waits for its client, from any address.
//
// If there is no such connection, the new connection itself is closed.
//
// # How the connection is found
//
// Idle and Busy, which are called for each request, set one word of the connection and take no
// lock. Enter and Leave update the counts of the address and its two networks. The connection to
// close is chosen from 64 random ones, or from all in a small table. If an address holds more than
// a twentieth of a full table, these 64 nearly always contain one of its connections.
//
// This package doesn't count memory. An idle connection takes the same memory for every client, so the bound on
// the number of connections is enough. The memory of a request is bounded by the package that uses the memory,
// with a budget for each address (package spool).
package connlimit

import (
	"io"
	"net/netip"
	"sync"
	"time"
)

const (
	// An address has no weight as long as it holds few connections: up to a 256th of the bound, but at least 8
	// and at most 32. A browser opens six, and a household more.
	fewPart, fewLeast, fewMost = 256, 8, 32
	// An address that holds more than a quarter of the bound has a large part.
	largePart = 4
	// An address is a crowd if it holds more than a 64th of the bound, and more than four times the number
	// that counts as few.
	manyPart, manyFew = 64, 4
	// A narrow network is a crowd if it holds more than an eighth of the bound, and a wide network if it holds
	// more than a quarter.
	crowdNarrow, crowdWide = 8, 4
	// The weight of a narrow network is a 16th of its number of connections, and that of a wide network a 64th.
	narrowPart, widePart = 16, 64
	// tries is how often another connection is chosen if the chosen one has changed in the meantime.
	tries = 4
	// ceiling is the largest bound.
	ceiling = 1 << 24
)

// Table holds all open connections. All methods may be called concurrently.
type Table struct {
	start                  time.Time
	most, few, many, large int32
	looks                  int

	mu            sync.Mutex // guards the fields below
	conns         []*Conn
	groups        [kinds]map[netip.Prefix]*group
	shed, refused uint64
}

// New makes a Table. most is the largest number of connections, limited to the range from 1 to 16,777,216.
// All later times must be after now.
func New(now time.Time, most int) *Table {
	n := int32(min(max(most, 1), ceiling))
	few := min(max(n/fewPart, fewLeast), fewMost)
	t := &Table{start: now, most: n, few: few, many: max(n/manyPart, manyFew*few), large: max(n/largePart, few), looks: looks}
	for k := range kinds {
		t.groups[k] = make(map[netip.Prefix]*group)
	}
	return t
}

// Enter adds a connection from an address. At first the connection waits for its client. The zero Addr, for
// unix sockets, counts as an address. trusted means that many clients share the address.
//
// If too many connections are then open, Enter closes one of them, on the caller's goroutine. If it closes the
// new one, Enter returns nil. Otherwise the caller must call Leave when the connection ends, even if it was
// closed to make room.
func (t *Table) Enter(now time.Time, from netip.Addr, trusted bool, closer io.Closer) *Conn {
	c := &Conn{table: t, closer: closer, from: ClientOf(from)}
	c.state.Store(waitingSince(t.at(now)))
	if out := t.place(c, trusted); out != nil {
		_ = out.closer.Close() // it is given up
		if out == c {
			return nil
		}
	}
	return c
}

// place adds a connection and returns the one that must be closed, or nil.
func (t *Table) place(c *Conn, trusted bool) *Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.join(c, trusted)
	c.at = int32(len(t.conns)) //nolint:gosec // at most Table.most
	t.conns = append(t.conns, c)
	if len(t.conns) <= int(t.most) {
		return nil
	}
	out := t.removeNext()
	if out == nil { // none of the chosen connections can be closed
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

// Shed closes the connection that Enter would close. It is for a caller that runs out of descriptors before the
// bound is reached. Shed returns false if no connection can be closed.
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

// removeNext removes and returns the connection to close next; nil: none can be closed. t.mu is held.
func (t *Table) removeNext() *Conn {
	for range tries { // usually once; more often only if the chosen connection has begun a request in the meantime
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

// remove takes a closed connection out of the table. t.mu is held.
func (t *Table) remove(c *Conn) {
	t.part(c)
	end := len(t.conns) - 1
	last := t.conns[end]
	t.conns[c.at], last.at = last, c.at
	t.conns[end] = nil
	t.conns = t.conns[:end]
	if cap(t.conns) > 16 && end < cap(t.conns)/4 { // frees memory that a larger number of connections needed
		t.conns = append(make([]*Conn, 0, 2*end), t.conns...)
	}
}

// at converts a time to nanoseconds since the Table was made.
func (t *Table) at(now time.Time) int64 { return int64(now.Sub(t.start)) }
