package connlimit

import (
	"cmp"
	"math"
	"math/rand/v2"
	"net/netip"
)

// kind is a kind of group in which connections are counted.
type kind int

const (
	whole  kind = iota // an IPv4 address or an IPv6 /64
	narrow             // the IPv4 /24 or IPv6 /48 of an address
	wide               // the IPv4 /16 or IPv6 /32 of an address
	kinds
)

// key returns the group of this kind to which an address belongs, or the zero Prefix if there is no address.
func (k kind) key(a netip.Addr) netip.Prefix {
	bits := [kinds]int{32, 24, 16}[k]
	if a.Is6() {
		bits = [kinds]int{64, 48, 32}[k]
	}
	p, _ := a.Prefix(bits) // the length is valid for every address
	return p
}

// group is an address or a network, and the number of its connections.
type group struct {
	open      int32 // open connections
	counted   int32 // value of open for ranking; a trusted address never counts as holding more than few connections
	addresses int32
	trusted   bool // whether the group is a trusted address, such as a load balancer, which many clients share
}

// join adds a connection to the groups of its address. t.mu is held.
func (t *Table) join(c *Conn, trusted bool) {
	news := int32(0)
	for k := range kinds {
		key := k.key(c.from)
		g := t.groups[k][key]
		if g == nil {
			g = &group{}
			t.groups[k][key] = g
			if k == whole {
				news = 1
			}
		}
		g.open++
		g.addresses += news
		c.groups[k] = g
	}
	c.groups[whole].trusted = trusted
	t.count(c)
}

// part removes a connection from its groups. t.mu is held.
func (t *Table) part(c *Conn) {
	for _, g := range c.groups {
		g.open--
	}
	t.count(c)
	last := c.groups[whole].open == 0
	for k, g := range c.groups {
		if last {
			g.addresses--
		}
		if g.open == 0 {
			delete(t.groups[k], kind(k).key(c.from))
		}
	}
	c.groups = [kinds]*group{}
}

// count updates the field counted of a connection's groups after the number of its address's connections has
// changed. t.mu is held.
func (t *Table) count(c *Conn) {
	a := c.groups[whole]
	n := a.open
	if a.trusted {
		n = min(n, t.few)
	}
	more := n - a.counted
	for _, g := range c.groups {
		g.counted += more
	}
}

// claim ranks a connection among those that could be closed: by its tier, then by the weight of its address or
// network, then by the number of connections of its address, and then by the time that it has waited.
type claim struct {
	tier            tier
	weight, counted int32
	since           int64
}

func (c claim) isBefore(o claim) bool {
	return cmp.Or(cmp.Compare(c.tier, o.tier), cmp.Compare(c.weight, o.weight), cmp.Compare(c.counted, o.counted), cmp.Compare(o.since, c.since)) > 0
}

// tier is a rank of connections. Those of the highest tier are closed first.
type tier int

const (
	stays     tier = iota
	waits          // the connection waits for its client, and its address holds few connections
	cutCrowd       // the connection serves a request, and its address or network is a crowd
	waitCrowd      // the connection waits, and its address or network is a crowd
	heavy          // the connection waits and its address or network holds many, or the connection serves a request and its address holds a large part of all
)

// claimOf returns the claim of a connection. t.mu is held.
func (t *Table) claimOf(c *Conn) claim {
	a, isWaiting := c.groups[whole], c.isWaiting()
	r := claim{weight: t.weight(c), counted: a.counted, since: math.MaxInt64}
	if isWaiting {
		r.since = c.since()
	}
	if isWaiting && r.weight > 0 || !isWaiting && a.counted > t.large {
		r.tier = heavy
		return r
	}
	r.weight = t.crowd(c)
	switch {
	case isWaiting && r.weight > 0:
		r.tier = waitCrowd
	case r.weight > 0 && !a.trusted:
		r.tier = cutCrowd
	case isWaiting:
		return claim{tier: waits, since: r.since}
	default:
		return claim{}
	}
	return r
}

// weight returns the largest weight among the connection's address and its networks, or 0 if the address holds
// few connections and no network weighs more.
func (t *Table) weight(c *Conn) int32 {
	w := max(c.groups[whole].counted, c.groups[narrow].counted/narrowPart, c.groups[wide].counted/widePart)
	if w <= t.few {
		return 0
	}
	return w
}

// crowd returns a weight if the connection's address, or one of its networks with several addresses, is a
// crowd, and otherwise 0. The weight is greater if the group's limit is a smaller part of the connections, so
// that addresses and networks of different sizes can be compared.
func (t *Table) crowd(c *Conn) (weight int32) {
	a, n, w := c.groups[whole], c.groups[narrow], c.groups[wide]
	if a.counted > min(t.many, t.large) {
		weight = a.counted * manyPart
	}
	if n.addresses > 1 && n.counted > max(t.most/crowdNarrow, t.few) {
		weight = max(weight, n.counted*crowdNarrow)
	}
	if w.addresses > 1 && w.counted > max(t.most/crowdWide, t.few) {
		weight = max(weight, w.counted*crowdWide)
	}
	return weight
}

// looks is the number of connections that are examined to find one to close.
const looks = 64

// choose returns the connection to close next, and whether it may be closed although it serves a request;
// nil: none can be closed. It compares a random sample of connections, or all if there are few. t.mu is held.
func (t *Table) choose() (next *Conn, cuts bool) {
	var first claim
	n, all := len(t.conns), len(t.conns) <= 2*t.looks
	if !all {
		n = t.looks
	}
	for i := range n {
		if !all {
			i = rand.IntN(len(t.conns)) //nolint:gosec // an attacker gains nothing by predicting the choice
		}
		if c := t.claimOf(t.conns[i]); c.isBefore(first) {
			next, first = t.conns[i], c
		}
	}
	return next, first.since == math.MaxInt64
}
