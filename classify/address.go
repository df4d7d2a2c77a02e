package classify

import (
	"net/netip"
	"strings"
)

// maxAddressBytes is the longest text that is read as an address: the longest
// IPv6 address, brackets, quotes, a zone and a port.
const maxAddressBytes = 80

// parseAddress reads an address as proxies write it: bare, in quotes, with a
// port ("192.0.2.1:80", "[2001:db8::1]:80", RFC 7239's obfuscated "_port"), an
// IPv6 one with or without brackets. A zone is dropped and an IPv4 address
// that is mapped into IPv6 is unmapped, so that one client has one address.
func parseAddress(s string) (netip.Addr, bool) {
	if a, ok := parsePlain4(s); ok {
		return a, true
	}
	s = trim(s)
	if len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"' {
		s = s[1 : len(s)-1]
	}
	if len(s) < 2 || len(s) > maxAddressBytes {
		return netip.Addr{}, false
	}
	bracketed := s[0] == '['
	if bracketed {
		end := strings.IndexByte(s, ']')
		if end == -1 || !isPortSuffix(s[end+1:]) {
			return netip.Addr{}, false
		}
		s = s[1:end]
	} else if colon := strings.IndexByte(s, ':'); colon > 0 && strings.IndexByte(s[colon+1:], ':') < 0 {
		if !isPortSuffix(s[colon:]) { // to look for bytes takes less time than to cut
			return netip.Addr{}, false
		}
		s = s[:colon]
	}
	isV6 := strings.IndexByte(s, ':') >= 0
	if isV6 {
		if zone := strings.IndexByte(s, '%'); zone >= 0 {
			s = s[:zone] // before parsing: netip would keep each zone in memory
		}
	}
	if bracketed && !isV6 || !maybeAddress(s) {
		return netip.Addr{}, false
	}
	address, err := netip.ParseAddr(s)
	return address.Unmap(), err == nil
}

// parsePlain4 reads an IPv4 address, with a port or without, as nearly all are written. What
// it does not read may be an address all the same.
func parsePlain4(s string) (netip.Addr, bool) {
	var octets [4]byte
	i := 0
	for at := range octets {
		first, n := i, 0
		for i < len(s) && isDigit(s[i]) && i-first < 3 {
			n = 10*n + int(s[i]-'0')
			i++
		}
		if i == first || n > 255 || i-first > 1 && s[first] == '0' {
			return netip.Addr{}, false
		}
		octets[at] = byte(n)
		if at == len(octets)-1 {
			break
		}
		if i == len(s) || s[i] != '.' {
			return netip.Addr{}, false
		}
		i++
	}
	return netip.AddrFrom4(octets), i == len(s) || isPortSuffix(s[i:])
}

// maybeAddress refuses most of what is no address without the allocations of
// an error.
func maybeAddress(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isHex(c) && c != '.' && c != ':' {
			return false
		}
	}
	return s != ""
}

// isPortSuffix reports whether s is empty, ":" and a port, or ":" and an
// obfuscated port (RFC 7239, 6.2). The port's number does not matter.
func isPortSuffix(s string) bool {
	if s == "" {
		return true
	}
	if s[0] != ':' || len(s) < 2 {
		return false
	}
	if s[1] == '_' {
		return len(s) > 2 && isToken(s[1:])
	}
	for i := 1; i < len(s); i++ {
		if !isDigit(s[i]) {
			return false
		}
	}
	return len(s) <= len(":65535")
}
