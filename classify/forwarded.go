package classify

import "net/netip"

// parseElement reads the address of the "for" parameter of one element of a
// Forwarded header (RFC 7239, 4): name=value pairs between semicolons, names in
// any case, values bare or quoted. An element without exactly one "for" that is
// an address is no usable hop. A quoted pair inside the address, which no proxy
// writes, makes it unusable, too.
func parseElement(element string) (netip.Addr, bool) {
	var address netip.Addr
	found := false
	for element != "" {
		var pair string
		pair, element = cutPair(element)
		if len(pair) < len("for=") || pair[3] != '=' || !isFor(pair[:3]) {
			continue
		}
		a, ok := parseAddress(pair[4:])
		if !ok || found {
			return netip.Addr{}, false
		}
		address, found = a, true
	}
	return address, found
}

func isFor(s string) bool {
	return s[0]|0x20 == 'f' && s[1]|0x20 == 'o' && s[2]|0x20 == 'r'
}

// cutPair cuts the first pair off, at the first semicolon outside of quotes.
func cutPair(s string) (pair, rest string) {
	inside := false
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if inside {
				i++
			}
		case '"':
			inside = !inside
		case ';':
			if !inside {
				return trim(s[:i]), s[i+1:]
			}
		}
	}
	return trim(s), ""
}
