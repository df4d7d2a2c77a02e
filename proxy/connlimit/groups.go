package connlimit

import (
	"cmp"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
)

// A key is an address as 64 bits: what it is accounted as. IPv6 has its /64 there. IPv4
// lies where IPv6 has multicast, which no client comes from, with gaps between its bytes, so
// that a network has as many bits in both.
const (
	ipv4    = 0xffff << 48
	unknown = 0xfffe << 48 // no address: a Unix socket's client
)

// keyOf returns the key of an address.
func keyOf(a netip.Addr) uint64 {
	a = a.Unmap()
	switch {
	case !a.IsValid():
		return unknown
	case a.Is4():
		b := a.As4()
		return ipv4 | uint64(b[0])<<40 | uint64(b[1])<<32 | uint64(b[2])<<16 | uint64(b[3])
	}
	b := a.As16()
	return binary.BigEndian.Uint64(b[:])
}

// prefixOf returns the network of so many bits that a key lies in; the zero Prefix for no address.
func prefixOf(key uint64, size int) netip.Prefix {
	if key == unknown {
		return netip.Prefix{}
	}
	if key>>48 == ipv4>>48 {
		a := netip.AddrFrom4([4]byte{byte(key >> 40), byte(key >> 32), byte(key >> 16), byte(key & 0xff)})
		return netip.PrefixFrom(a, size/2).Masked()
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], key)
	return netip.PrefixFrom(netip.AddrFrom16(b), size).Masked()
}

// kind is what connections are counted by.
type kind int

const (
	whole  kind = iota // an address
	narrow             // its /24 or /48
	wide               // its /16 or /32
	kinds
)

// bits is how many bits of a key all of a kind share.
func (k kind) bits() int { return [kinds]int{64, 48, 32}[k] }

// group is an address or a network, and the connections that it holds.
type group struct {
	key     uint64 // without the bits that its connections do not share
	conns   []*Conn
	counted int32 // how many that counts as; a trusted address counts as few at most
	trusted bool
}

func (g *group) add(c *Conn, k kind) {
	c.at[k] = int32(len(g.conns)) //nolint:gosec // at most Table.most
	g.conns = append(g.conns, c)
}

func (g *group) remove(c *Conn, k kind) {
	last := g.conns[len(g.conns)-1]
	g.conns[c.at[k]], last.at[k] = last, c.at[k]
	g.conns = cut(g.conns)
}

// oldest is the one that has waited for longest; nil: none waits.
func oldest(conns []*Conn) (c *Conn) {
	for _, x := range conns {
		if x.isWaiting() && (c == nil || x.since() < c.since()) {
			c = x
		}
	}
	return c
}

// ofHeaviest is one that is of the address that counts most among them: one that waits, the oldest
// of them, or one with a request if that may be cut.
func ofHeaviest(conns []*Conn, cuts bool) (c *Conn) {
	for _, x := range conns {
		a := x.groups[whole]
		switch {
		case cuts && a.trusted || !cuts && !x.isWaiting():
		case c == nil || a.counted > c.groups[whole].counted:
			c = x
		case a.counted == c.groups[whole].counted && !cuts && x.since() < c.since():
			c = x
		}
	}
	return c
}

// heaviest is the groups of a kind that connections are of, those that count most first, and none
// that counts as few.
func heaviest(conns []*Conn, k kind, few int32) (all []*group) {
	for _, c := range conns {
		if g := c.groups[k]; g.counted > few && !slices.Contains(all, g) {
			all = append(all, g)
		}
	}
	slices.SortFunc(all, func(a, b *group) int { return cmp.Or(cmp.Compare(b.counted, a.counted), cmp.Compare(a.key, b.key)) })
	return all
}

// cut takes the last element off a slice, and gives back the memory that it once needed.
func cut[T any](s []*T) []*T {
	last := len(s) - 1
	s[last] = nil
	s = s[:last]
	if cap(s) > 16 && last < cap(s)/4 {
		return append(make([]*T, 0, 2*last), s...)
	}
	return s
}

// looks is how many connections are looked at to find one that goes.
const looks = 64

// sample is connections to look at: some at random, but of few all.
func (t *Table) sample(conns []*Conn) []*Conn {
	if len(conns) <= 2*t.looks {
		return conns
	}
	some := make([]*Conn, t.looks)
	for i := range some {
		some[i] = conns[rand.IntN(len(conns))] //nolint:gosec // it hides nothing that is worth a guess
	}
	return some
}
