package classify

import "net/netip"

// appendNetwork appends the network of a that the class groups by. An IPv6
// client has at least a /64 of its own and can take any address in it, so that
// stands for the single IPv4 address; a /56 is what a household is given and a
// /48 what a site is (RFC 6177), so those stand for /24 and /16.
func appendNetwork(dst []byte, a netip.Addr, by By) []byte {
	if a.Is4() {
		return appendNetwork4(dst, a.As4(), by)
	}
	prefix, err := a.Prefix(bits6(by))
	if err != nil {
		return dst // not reached: addresses are valid and the lengths fit
	}
	return prefix.AppendTo(dst)
}

// appendNetwork4 appends the network of an IPv4 address. Nearly every request has three.
func appendNetwork4(dst []byte, a [4]byte, by By) []byte {
	dst = append(appendByte(dst, a[0]), '.')
	dst = append(appendByte(dst, a[1]), '.')
	if by == Slash16 {
		return append(dst, "0.0/16"...)
	}
	dst = appendByte(dst, a[2])
	if by == Slash24 {
		return append(dst, ".0/24"...)
	}
	return appendByte(append(dst, '.'), a[3])
}

// appendByte appends a number in decimal.
func appendByte(dst []byte, x byte) []byte {
	switch {
	case x >= 100:
		dst = append(dst, '0'+x/100, '0'+x/10%10)
	case x >= 10:
		dst = append(dst, '0'+x/10)
	}
	return append(dst, '0'+x%10)
}

// appendAddress appends the whole address, and if mapped that of IPv4 as a socket of IPv6 tells
// it.
func appendAddress(dst []byte, a netip.Addr, mapped bool) []byte {
	if mapped && a.Is4() {
		a = netip.AddrFrom16(a.As16())
	}
	return a.AppendTo(dst)
}

// bits6 is how long the network of an IPv6 address is.
func bits6(by By) int {
	switch by {
	case Slash24:
		return 56
	case Slash16:
		return 48
	default:
		return 64
	}
}
