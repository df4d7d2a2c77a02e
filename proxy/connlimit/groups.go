package connlimit

import (
	"encoding/binary"
	"iter"
	"math/rand/v2"
	"net/netip"
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
	at      int32 // index in rank.all
	rank    *rank // nil: it holds few, and so is not ranked
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

// oldest is the connection of a sample that has waited for longest; nil: none waits.
func (g *group) oldest() (c *Conn) {
	for x := range sample(g.conns) {
		if x.isWaiting() && (c == nil || x.since() < c.since()) {
			c = x
		}
	}
	return c
}

// ofHeaviest is a connection of a sample that is of the address that counts most there: one that
// waits, the oldest of them, or one with a request if that may be cut.
func (g *group) ofHeaviest(cuts bool) (c *Conn) {
	for x := range sample(g.conns) {
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

// ranking is groups in the order of how many connections they count as holding, those that hold
// few left out. A count changes by one at a time, so that this needs no search.
type ranking struct{ few rank } // few.all is empty

// rank is the groups with the same count, in a ring of all of these that there are.
type rank struct {
	count        int32
	all          []*group
	above, below *rank
}

func (r *ranking) init(few int32) { r.few = rank{count: few, above: &r.few, below: &r.few} }

// up counts one more.
func (r *ranking) up(g *group) {
	if g.counted++; g.counted <= r.few.count {
		return
	}
	from := g.rank
	if from == nil {
		from = &r.few
	}
	r.settle(g, from.above, from)
}

// down counts one less.
func (r *ranking) down(g *group) {
	if g.counted--; g.counted >= r.few.count {
		r.settle(g, g.rank.below, g.rank.below)
	}
}

// settle puts a group into the rank of its new count, the next one if there is such, else one
// above the last.
func (r *ranking) settle(g *group, next, last *rank) {
	switch {
	case next.count == g.counted:
		r.move(g, next)
	case g.rank != nil && len(g.rank.all) == 1:
		g.rank.count = g.counted
	default:
		r.move(g, last.insertAbove(g.counted))
	}
}

func (k *rank) insertAbove(count int32) *rank {
	n := &rank{count: count, above: k.above, below: k}
	k.above.below, k.above = n, n
	return n
}

func (r *ranking) move(g *group, to *rank) {
	if from := g.rank; from != nil {
		last := len(from.all) - 1
		from.all[g.at] = from.all[last]
		from.all[g.at].at = g.at
		if from.all = cut(from.all); last == 0 {
			from.above.below, from.below.above = from.below, from.above
		}
	}
	if g.rank = to; to == &r.few {
		g.rank = nil
		return
	}
	g.at = int32(len(to.all)) //nolint:gosec // at most Table.most
	to.all = append(to.all, g)
}

// heaviest is the groups, those with the highest count first.
func (r *ranking) heaviest() iter.Seq[*group] {
	return func(yield func(*group) bool) {
		for k := r.few.below; k != &r.few; k = k.below {
			for _, g := range k.all {
				if !yield(g) {
					return
				}
			}
		}
	}
}

// first is the heaviest one; nil: all hold few.
func (r *ranking) first() *group {
	for g := range r.heaviest() {
		return g
	}
	return nil
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

const (
	// looks is how many connections are looked at to find one that goes: a random sample, but of
	// no more than fewConns all.
	looks    = 64
	fewConns = 128
)

// sample is connections to look at.
func sample(conns []*Conn) iter.Seq[*Conn] {
	return func(yield func(*Conn) bool) {
		if len(conns) <= fewConns {
			for _, c := range conns {
				if !yield(c) {
					return
				}
			}
			return
		}
		for range looks {
			if !yield(conns[rand.IntN(len(conns))]) { //nolint:gosec // it hides nothing that is worth a guess
				return
			}
		}
	}
}
