package connlimit

import (
	"cmp"
	"net/netip"
	"slices"
)

// Stats holds the number of open connections, and the addresses and networks with most of them.
type Stats struct {
	Open      int    `json:"open"`      // open connections
	Most      int    `json:"most"`      // largest allowed number of connections
	Addresses int    `json:"addresses"` // addresses with open connections
	Shed      uint64 `json:"shed"`      // connections closed since the start to make room for others
	Refused   uint64 `json:"refused"`   // new connections closed at once, because no other connection could be closed instead

	// The addresses and the networks with the most connections, the largest first. A network is a /24 or /16
	// (IPv6: /48 or /32) with connections from more than one address.
	Top      []Holder `json:"top"`
	Networks []Holder `json:"networks"`
}

// Holder is an address or a network, and the number of its connections.
type Holder struct {
	Prefix netip.Prefix `json:"prefix"` // address or network; invalid: all unix sockets
	Open   int          `json:"open"`
}

// Stats returns the current state, with at most top addresses and as many networks. Enter and Leave wait until
// Stats has finished, which takes milliseconds with 100,000 addresses.
func (t *Table) Stats(top int) Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	addresses, networks := largest{all: []Holder{}, most: top}, largest{all: []Holder{}, most: top}
	for k, top := range [kinds]*largest{&addresses, &networks, &networks} {
		for key, g := range t.groups[k] {
			if k == int(whole) || g.addresses > 1 {
				top.insert(Holder{key, int(g.open)})
			}
		}
	}
	return Stats{
		Open: len(t.conns), Most: int(t.most), Addresses: len(t.groups[whole]), Shed: t.shed, Refused: t.refused,
		Top: addresses.all, Networks: networks.all,
	}
}

// largest keeps the largest of many holders.
type largest struct {
	all  []Holder
	most int
}

// insert adds a holder if it is among the largest.
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
