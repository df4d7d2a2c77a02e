package connlimit

import (
	"cmp"
	"net/netip"
	"slices"
)

// Stats tell who holds the connections.
type Stats struct {
	Open      int    `json:"open"`      // connections
	Most      int    `json:"most"`      // the bound
	Addresses int    `json:"addresses"` // that hold one or more
	Shed      uint64 `json:"shed"`      // closed since the start, for others
	Refused   uint64 `json:"refused"`   // newcomers closed at once, because no other could be

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
// networks. It holds up Enter and Leave in the meantime: with 100,000 addresses for
// milliseconds.
func (t *Table) Stats(top int) Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	addresses, networks := largest{all: []Holder{}, most: top}, largest{all: []Holder{}, most: top}
	for k, top := range [kinds]*largest{&addresses, &networks, &networks} {
		for _, h := range t.groups[k] {
			if k == int(whole) || len(h.conns) > len(h.conns[0].groups[whole].conns) {
				key := h.key << (whole.bits() - kind(k).bits())
				top.insert(Holder{prefixOf(key, kind(k).bits()), len(h.conns)})
			}
		}
	}
	return Stats{
		Open: len(t.all.conns), Most: int(t.most), Addresses: len(t.groups[whole]), Shed: t.shed, Refused: t.refused,
		Top: addresses.all, Networks: networks.all,
	}
}

// largest are the first of many.
type largest struct {
	all  []Holder
	most int
}

// insert adds a row that is among the first.
func (h *largest) insert(n Holder) {
	at, _ := slices.BinarySearchFunc(h.all, n, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(b.Open, a.Open), a.Prefix.Addr().Compare(b.Prefix.Addr()), cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()))
	})
	if at == h.most {
		return
	}
	h.all = slices.Insert(h.all, at, n)
	h.all = h.all[:min(len(h.all), h.most)]
}
