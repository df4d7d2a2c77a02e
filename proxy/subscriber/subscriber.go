// Package subscriber says who is meant by an address where something is shared out among
// clients.
package subscriber

import "net/netip"

// Of is what an address counts as: itself, and one of IPv6 as the /64 that it is in, of
// which whoever has one address has all. An address of IPv4 in IPv6 is that of IPv4, and
// what is no address stays none.
func Of(a netip.Addr) netip.Addr {
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
