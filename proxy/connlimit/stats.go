package connlimit

import (
	"net/netip"
	"slices"
)

// Stats tell who holds the connections.
type Stats struct {
	Open      int    `json:"open"`      // connections
	Most      int    `json:"most"`      // the bound
	Addresses int    `json:"addresses"` // that hold one or more
	Shed      uint64 `json:"shed"`      // closed since the start, for others
	Refused   uint64 `json:"refused"`   // newcomers closed at once, as nobody had anything to give

	// The addresses and the networks that hold most, the largest first. Networks are /24 and
	// /16 (IPv6: /48 and /32) that have more than one address.
	Top      []Holder `json:"top"`
	Networks []Holder `json:"networks"`
}

// Holder is an address or a network, and how many connections it holds.
type Holder struct {
	Prefix netip.Prefix `json:"prefix"` // invalid: Unix sockets
	Open   int          `json:"open"`
}

// Stats returns the state of this moment, with at most top addresses and as many
// networks. It holds up Enter and Leave meanwhile: with 100,000 addresses for
// milliseconds.
func (t *Table) Stats(top int) Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	addresses, networks := holders{all: []Holder{}, most: top}, holders{all: []Holder{}, most: top}
	addresses.add(t.tree.root)
	networks.addNetworks(t.tree.root, -1)
	return Stats{
		Open: int(t.open), Most: int(t.most), Addresses: t.addresses, Shed: t.shed, Refused: t.refused,
		Top: addresses.all, Networks: networks.all,
	}
}

// holders are the first of many.
type holders struct {
	all  []Holder
	most int
}

// takes tells whether one with so many connections is among the first.
func (h *holders) takes(n int) bool {
	return len(h.all) < h.most || h.most > 0 && n > h.all[len(h.all)-1].Open
}

func (h *holders) insert(n Holder) {
	if !h.takes(n.Open) {
		return
	}
	at, _ := slices.BinarySearchFunc(h.all, n, func(a, b Holder) int {
		if a.Open >= b.Open {
			return -1
		}
		return 1
	})
	if len(h.all) == h.most {
		h.all = h.all[:h.most-1]
	}
	h.all = slices.Insert(h.all, at, n)
}

// add adds the addresses of a part of the tree. It leaves out what is too small as a
// whole to have one.
func (h *holders) add(n node) {
	switch n := n.(type) {
	case *address:
		h.insert(Holder{Prefix: prefixOf(n.key, whole), Open: len(n.conns)})
	case *branch:
		if !h.takes(int(n.open)) {
			return
		}
		larger := 0
		if n.children[1].total().open > n.children[0].total().open {
			larger = 1
		}
		h.add(n.children[larger])
		h.add(n.children[1-larger])
	}
}

// addNetworks adds the networks of a part of the tree that hangs from a branch at a bit.
func (h *holders) addNetworks(n node, above int) {
	b, ok := n.(*branch)
	if !ok || !h.takes(int(b.open)) {
		return
	}
	for _, size := range []int{wide, narrow} {
		if above < size && int(b.bit) >= size {
			h.insert(Holder{Prefix: prefixOf(b.anyKey(), size), Open: int(b.open)})
		}
	}
	if b.bit < narrow {
		h.addNetworks(b.children[0], int(b.bit))
		h.addNetworks(b.children[1], int(b.bit))
	}
}

// anyKey is the key of one of a branch's addresses.
func (b *branch) anyKey() uint64 {
	n := b.children[0]
	for {
		child, ok := n.(*branch)
		if !ok {
			return n.(*address).key
		}
		n = child.children[0]
	}
}
