package classify

import (
	"net/http"
	"net/netip"
	"strings"
)

// AddressHeader is the header in which trusted proxies give the client's address.
type AddressHeader uint8

// The headers that proxies use.
const (
	XForwardedFor  AddressHeader = iota // a list of addresses, each proxy appends its peer's
	Forwarded                           // the same with parameters, RFC 7239
	XRealIP                             // one address
	CFConnectingIP                      // one address: Cloudflare's
	TrueClientIP                        // one address: Akamai's, and Cloudflare's
	NoHeader                            // none: the client is always the peer
)

// maxHops is how many hops are looked at, from the right. Real chains have
// fewer than ten.
const maxHops = 64

// client is the address that is charged, and whether the peer is trusted.
//
// A peer that is no trusted proxy is the client, whatever its headers say.
// Behind a trusted one the client is the rightmost hop that is not a trusted
// proxy, because each proxy appends what it saw: all to the left of that hop is
// what the client itself claims. If all hops are trusted it is the leftmost.
// A hop that is no address ("unknown", an obfuscated name, garbage) ends the
// walk: the client is then the last trusted hop to its right, or the peer.
func (c *Classifier) client(r *http.Request) (client netip.Addr, trustedPeer bool) {
	peer, local := parsePeer(r.RemoteAddr)
	if !local && !c.trusted.Contains(peer) {
		return peer, false
	}
	switch c.source {
	case XForwardedFor:
		return c.walk(peer, hops{lines: r.Header["X-Forwarded-For"]}, parseAddress), true
	case Forwarded:
		return c.walk(peer, hops{lines: r.Header["Forwarded"], quotes: true}, parseElement), true
	case XRealIP:
		return realIP(peer, r.Header["X-Real-Ip"]), true
	case CFConnectingIP:
		return realIP(peer, r.Header["Cf-Connecting-Ip"]), true
	case TrueClientIP:
		return realIP(peer, r.Header["True-Client-Ip"]), true
	default:
		return peer, true
	}
}

func (c *Classifier) walk(peer netip.Addr, h hops, parse func(string) (netip.Addr, bool)) netip.Addr {
	address := peer
	h.left = maxListBytes
	for range maxHops {
		text, ok := h.next()
		if !ok {
			break
		}
		hop, ok := parse(text)
		if !ok {
			break
		}
		address = hop
		if !c.trusted.Contains(hop) {
			break
		}
	}
	return address
}

// realIP takes the last line: a proxy that adds its own instead of replacing
// what the client sent adds it behind.
func realIP(peer netip.Addr, lines []string) netip.Addr {
	if len(lines) == 0 {
		return peer
	}
	if address, ok := parseAddress(lines[len(lines)-1]); ok {
		return address
	}
	return peer
}

// Peer is the address of the connection's other end, and whether it is a trusted proxy. Remote
// is as in http.Request.RemoteAddr.
func (c *Classifier) Peer(remote string) (peer netip.Addr, trusted bool) {
	peer, local := parsePeer(remote)
	return peer, local || c.trusted.Contains(peer)
}

// parsePeer reads http.Request.RemoteAddr. The peer of a unix socket ("", "@", "@name" or
// "/path") is local: the socket's permissions decided who may connect, it is a proxy on this
// machine, and it is trusted whatever TrustedProxies contains; without a usable header its
// clients are charged to 127.0.0.1. Anything else that isn't an address is not trusted, and is
// charged to 0.0.0.0.
func parsePeer(remote string) (peer netip.Addr, local bool) {
	if remote == "" || remote[0] == '@' || remote[0] == '/' {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), true
	}
	if address, ok := parseAddress(remote); ok {
		return address, false
	}
	return netip.IPv4Unspecified(), false
}

// maxListBytes is how much of a list of hops is looked at, from the right.
const maxListBytes = 4096

// hops reads a list header from its right end: several lines are one list, in
// order (RFC 9110, 5.3). It never looks at what stands to the left of the
// element it returns, so nothing that a client sends can change how the
// elements that proxies appended are read; in particular an open quote does
// not swallow them.
type hops struct {
	lines  []string // lines not begun yet
	line   string   // what is left of the line being read
	left   int      // bytes that may still be looked at
	quotes bool     // commas inside quoted strings do not separate
	inLine bool     // line holds an element not returned yet
	cut    bool     // the left end of line was cut off
}

// next is the next element that is not empty, and false at the end of the list
// or of what may be looked at.
func (h *hops) next() (string, bool) {
	for {
		if !h.inLine && !h.begin() {
			return "", false
		}
		comma := h.lastComma()
		element := trim(h.line[comma+1:])
		if comma == -1 {
			h.inLine = false
			if h.cut {
				return "", false // only a part of the element
			}
		} else {
			h.line = h.line[:comma]
		}
		if element != "" {
			return element, true
		}
	}
}

func (h *hops) begin() bool {
	if len(h.lines) == 0 || h.left <= 0 {
		return false
	}
	last := len(h.lines) - 1
	h.line, h.lines = h.lines[last], h.lines[:last]
	if h.cut = len(h.line) > h.left; h.cut {
		h.line = h.line[len(h.line)-h.left:]
	}
	h.left -= len(h.line) + 1 // an empty line costs something as well
	h.inLine = true
	return true
}

func (h *hops) lastComma() int {
	if !h.quotes {
		return strings.LastIndexByte(h.line, ',')
	}
	inside := false
	for i := len(h.line) - 1; i >= 0; i-- {
		switch h.line[i] {
		case '"':
			if !inside || !escaped(h.line, i) {
				inside = !inside
			}
		case ',':
			if !inside {
				return i
			}
		}
	}
	return -1
}

// escaped reports whether an odd number of backslashes is before s[i].
func escaped(s string, i int) bool {
	odd := false
	for i--; i >= 0 && s[i] == '\\'; i-- {
		odd = !odd
	}
	return odd
}

// trim cuts optional white space (RFC 9110, 5.6.3).
func trim(s string) string { return strings.Trim(s, " \t") }

// parseElement reads the address of the "for" parameter of one element of a Forwarded header
// (RFC 7239, 4): name=value pairs between semicolons, names in any case, values bare or quoted.
// An element without exactly one "for" with an address isn't a usable hop, nor is one with a
// quoted pair inside the address, which proxies never write.
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

// maxAddressBytes is the longest text that is read as an address: the longest
// IPv6 address, brackets, quotes, a zone and a port.
const maxAddressBytes = 80

// parseAddress reads an address as proxies write it: bare, in quotes, with a port
// ("192.0.2.1:80", "[2001:db8::1]:80", RFC 7239's obfuscated "_port"), an IPv6 one with or
// without brackets. A zone is dropped and an IPv4 address that is mapped into IPv6 is unmapped,
// so one client has one address.
func parseAddress(s string) (netip.Addr, bool) {
	s = trim(s)
	if len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"' {
		s = s[1 : len(s)-1]
	}
	if s == "" || len(s) > maxAddressBytes {
		return netip.Addr{}, false
	}
	host, port, bracketed := s, "", s[0] == '['
	if end := strings.IndexByte(s, ']'); bracketed && end > 0 {
		host, port = s[1:end], s[end+1:]
	} else if colon := strings.IndexByte(s, ':'); strings.Count(s, ":") == 1 {
		host, port = s[:colon], s[colon:]
	}
	if isV6 := strings.Contains(host, ":"); isV6 {
		host, _, _ = strings.Cut(host, "%") // before parsing: netip would keep each zone in memory
	} else if bracketed {
		return netip.Addr{}, false
	}
	address, err := netip.ParseAddr(host)
	return address.Unmap(), err == nil && isPortSuffix(port)
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

// appendNetwork appends the network of a that the class groups by. An IPv6 client has at least
// a /64 of its own and can take any address in it, so the /64 stands for a single IPv4 address.
// A household gets a /56 and a site a /48 (RFC 6177), so those stand for /24 and /16.
func appendNetwork(dst []byte, a netip.Addr, by By) []byte {
	if a.Is4() && by == Slash32 {
		return a.AppendTo(dst)
	}
	prefix, err := a.Prefix(bitsOf(a, by))
	if err != nil {
		return dst // not reached: addresses are valid and the lengths fit
	}
	return prefix.AppendTo(dst)
}

// NetworkOf is the network within which carriers and offices change a client's address:
// its /24; IPv6: its /48, as phones and laptops have several /64 in turn.
func NetworkOf(client netip.Addr) netip.Prefix {
	bits := 48
	if client.Is4() {
		bits = 24
	}
	p, _ := client.Prefix(bits) // of an address without a zone there is one
	return p
}

// appendAddress appends the whole address, and if mapped that of IPv4 as a socket of IPv6 tells
// it.
func appendAddress(dst []byte, a netip.Addr, mapped bool) []byte {
	if mapped && a.Is4() {
		a = netip.AddrFrom16(a.As16())
	}
	return a.AppendTo(dst)
}

// bitsOf is how long the network of an address is.
func bitsOf(a netip.Addr, by By) int {
	switch {
	case a.Is4() && by == Slash24:
		return 24
	case a.Is4():
		return 16
	case by == Slash24:
		return 56
	case by == Slash16:
		return 48
	}
	return 64
}

// Secure reports whether a client came over TLS, according to its connection or a trusted peer;
// of several values the first counts, from the peer nearest to the client.
func Secure(r *http.Request, trustedPeer bool) bool {
	if r.TLS != nil {
		return true
	}
	proto := r.Header["X-Forwarded-Proto"]
	if !trustedPeer || len(proto) == 0 {
		return false
	}
	first, _, _ := strings.Cut(proto[0], ",")
	return strings.EqualFold(trim(first), "https")
}
