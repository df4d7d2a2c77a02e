package http1

import (
	"net/netip"
	"strings"
)

// IsHost tells whether a text is the host of a request, with or without a port (RFC
// 9110, 7.2; RFC 3986, 3.2.2). Of a name only those letters are allowed that a name of a
// site has: with others it ends in another place for some, or is another name.
func IsHost[T string | []byte](s T) bool {
	name, port := cutPort(s)
	if len(name) == 0 || len(port) > 5 {
		return false
	}
	for i := range len(port) {
		if !isDigit(port[i]) {
			return false
		}
	}
	if name[0] == '[' {
		return isLiteral(name)
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', isDigit(c), c == '-', c == '.', c == '_', c == '~':
		default:
			return false
		}
	}
	return true
}

// cutPort cuts a port off: what is behind the first colon, or behind the first one
// after a bracket.
func cutPort[T string | []byte](s T) (name, port T) {
	inside := len(s) > 0 && s[0] == '['
	for i := range len(s) {
		switch {
		case s[i] == ']':
			inside = false
		case s[i] == ':' && !inside:
			return s[:i], s[i+1:]
		}
	}
	return s, s[:0]
}

// isLiteral tells whether a text that begins with a bracket is an IPv6 address in brackets.
func isLiteral[T string | []byte](s T) bool {
	if s[len(s)-1] != ']' {
		return false
	}
	inner := string(s[1 : len(s)-1])
	a, err := netip.ParseAddr(inner)
	return err == nil && a.Is6() && !strings.Contains(inner, "%")
}

// HostName is the host of a request without its port; empty if it is none.
func HostName(host string) string {
	if !IsHost(host) {
		return ""
	}
	name, _ := cutPort(host)
	return name
}
