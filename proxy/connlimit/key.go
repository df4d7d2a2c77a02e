package connlimit

import (
	"encoding/binary"
	"net/netip"
)

// A key is an address as 64 bits: what it is accounted as. IPv6 has its /64 there. IPv4
// lies where IPv6 has multicast, which nobody comes from, with gaps between its bytes, so
// that a network has as many bits in both: narrow is a /24 or a /48, wide a /16 or a /32.
const (
	wide   = 32
	narrow = 48
	whole  = 64

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

// prefixOf returns the network of so many bits (wide, narrow, whole) that a key lies in;
// the zero Prefix for no address.
func prefixOf(key uint64, size int) netip.Prefix {
	if key == unknown {
		return netip.Prefix{}
	}
	if key>>48 == ipv4>>48 {
		a := netip.AddrFrom4([4]byte{byte(key >> 40), byte(key >> 32), byte(key >> 16), byte(key & 0xff)})
		return netip.PrefixFrom(a, 16+(size-wide)/2).Masked()
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], key)
	return netip.PrefixFrom(netip.AddrFrom16(b), size).Masked()
}
