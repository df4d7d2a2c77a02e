package connlimit

import (
	"net/netip"
	"sync"
)

// ClientOf is what an address counts as: itself, or for IPv6 its /64, because a client with one
// address of it has all of them. An IPv4 address mapped into IPv6 counts as the IPv4 address,
// and an invalid one stays invalid.
func ClientOf(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if !a.Is6() {
		return a
	}
	prefix, err := a.Prefix(64)
	if err != nil { // not of an address without zone
		return a
	}
	return prefix.Addr()
}

// OnePart is the part of what the others leave that one client may have, one in so many.
// So a few clients do not take all there is, and a client alone has plenty.
const OnePart = 16

// Share is something bounded, such as bytes of memory, that clients hold parts of. Its
// methods may be called concurrently.
type Share struct {
	mu   sync.Mutex // guards the following
	most int
	held int
	of   map[netip.Addr]int
}

// NewShare makes a Share of so much.
func NewShare(most int) *Share { return &Share{most: most, of: make(map[netip.Addr]int)} }

// Bound changes how much there is. What is held stays, also if it is more.
func (s *Share) Bound(most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = most
}

// Take takes n for a client. If there is no room, full is whether the others have it.
func (s *Share) Take(client netip.Addr, n int) (ok, full bool) {
	client = ClientOf(client)
	s.mu.Lock()
	defer s.mu.Unlock()
	own, left := s.of[client], s.most-s.held
	if n > left || own+n > (left+own+OnePart-1)/OnePart {
		return false, own == 0
	}
	s.held += n
	s.of[client] = own + n
	return true, false
}

// GiveBack gives back what Take has taken.
func (s *Share) GiveBack(client netip.Addr, n int) {
	client = ClientOf(client)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held -= n
	if s.of[client] -= n; s.of[client] == 0 {
		delete(s.of, client)
	}
}

// Held is how much of it all clients hold.
func (s *Share) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}
