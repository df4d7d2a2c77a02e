package connlimit

import (
	"net/netip"
	"sync"
)

// ClientOf returns the address that stands for a client: for IPv4 the address itself, for IPv6 its /64,
// because a client with one address of a /64 usually controls all of them. An IPv4 address mapped into IPv6
// counts as the IPv4 address. An invalid address stays invalid.
func ClientOf(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if !a.Is6() {
		return a
	}
	prefix, _ := a.Prefix(64) // an address without a zone always has a /64
	return prefix.Addr()
}

// One client may hold a quarter of the amount that the other clients leave, because many people may share its
// address. Once half of the amount is held, it may hold a 16th, so sixty greedy clients still leave a hundredth.
const (
	OnePart    = 4
	scarcePart = 16
)

// Share is a bounded amount, such as bytes of memory, of which clients hold parts. Its methods may be called
// concurrently.
type Share struct {
	mu   sync.Mutex // guards the fields below
	most int
	held int
	of   map[netip.Addr]int
}

// NewShare makes a Share of the given amount.
func NewShare(most int) *Share { return &Share{most: most, of: make(map[netip.Addr]int)} }

// Bound changes the amount. Clients keep the parts that they hold, even if these exceed the new amount.
func (s *Share) Bound(most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = most
}

// Take takes n for a client. If there isn't enough left, full reports whether other clients hold the rest.
func (s *Share) Take(client netip.Addr, n int) (ok, full bool) {
	client = ClientOf(client)
	s.mu.Lock()
	defer s.mu.Unlock()
	own, left, part := s.of[client], s.most-s.held, OnePart
	if s.held > s.most/2 {
		part = scarcePart
	}
	if n > left || own+n > (left+own+part-1)/part {
		return false, own == 0
	}
	s.held += n
	s.of[client] = own + n
	return true, false
}

// GiveBack returns an amount that Take has taken.
func (s *Share) GiveBack(client netip.Addr, n int) {
	client = ClientOf(client)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held -= n
	if s.of[client] -= n; s.of[client] == 0 {
		delete(s.of, client)
	}
}

// Held returns the amount that all clients together hold.
func (s *Share) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}
