package classify

import (
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"
)

// AddressHeader is the header in which trusted proxies give the client's address.
type AddressHeader uint8

// The headers that proxies use:
const (
	XForwardedFor  AddressHeader = iota // a list of addresses; each proxy appends its peer's
	Forwarded                           // the same with parameters (RFC 7239)
	XRealIP                             // one address
	CFConnectingIP                      // one address: used by Cloudflare
	TrueClientIP                        // one address: used by Akamai, and by Cloudflare
	NoHeader                            // none: the client is always the peer
)

// maxHops is the most hops that are read, from the right. Real chains have fewer than ten.
const maxHops = 64

// client returns the address to charge, and whether the peer is trusted.
//
// A peer that isn't a trusted proxy is the client, whatever its headers say. If the peer is a trusted proxy,
// the client is the rightmost hop that isn't trusted: each proxy appends the address that it saw, so the
// client may have written everything to the left of that hop. If all hops are trusted, the client is the
// leftmost one. The search ends at a hop that isn't an address ("unknown", an obfuscated name, or invalid
// text). The client is then the trusted hop to the right of it, or the peer.
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

// realIP reads the last line, because some proxies append a line of their own instead of replacing the
// client's.
func realIP(peer netip.Addr, lines []string) netip.Addr {
	if len(lines) == 0 {
		return peer
	}
	if address, ok := parseAddress(lines[len(lines)-1]); ok {
		return address
	}
	return peer
}

// Peer returns the address of the other end of a connection, and whether it is a trusted proxy. remote has the
// form of http.Request.RemoteAddr.
func (c *Classifier) Peer(remote string) (peer netip.Addr, trusted bool) {
	peer, local := parsePeer(remote)
	return peer, local || c.trusted.Contains(peer)
}

// parsePeer reads http.Request.RemoteAddr. The peer of a Unix socket ("", "@", "@name" or "/path") is local:
// it is a proxy on this machine, and the socket's permissions allow it to connect. A local peer is always
// trusted, even if TrustedProxies is empty. If it sends no usable header, its clients are charged to
// 127.0.0.1. Any other text that isn't an address is untrusted and charged to 0.0.0.0.
func parsePeer(remote string) (peer netip.Addr, local bool) {
	if remote == "" || remote[0] == '@' || remote[0] == '/' {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), true
	}
	if address, ok := parseAddress(remote); ok {
		return address, false
	}
	return netip.IPv4Unspecified(), false
}

// maxListBytes limits how much of a list of hops is read, from the right.
const maxListBytes = 4096

// hops reads a list header from its right end. Several lines form one list (RFC 9110, 5.3). To find an
// element, hops reads nothing to the left of it. The client, whose text is on the left, therefore can't change
// how the proxies' elements are read, for example with an unclosed quote.
type hops struct {
	lines  []string // the lines to read next
	line   string   // the rest of the current line
	left   int      // bytes that may still be read
	quotes bool     // commas inside quoted strings don't separate elements
	inLine bool     // line contains an element that hasn't been returned yet
	cut    bool     // the left end of line was cut off
}

// next returns the next element that isn't empty. It returns false at the end of the list, or once it has read
// as many bytes as allowed.
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
				return "", false // this is only a part of the element
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
	h.left -= len(h.line) + 1 // the 1 also limits the number of empty lines
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

// escaped reports whether s[i] follows an odd number of backslashes.
func escaped(s string, i int) bool {
	odd := false
	for i--; i >= 0 && s[i] == '\\'; i-- {
		odd = !odd
	}
	return odd
}

// trim removes optional white space (RFC 9110, 5.6.3).
func trim(s string) string { return textproto.TrimString(s) }

// parseElement reads the address in one element of a Forwarded header (RFC 7239, 4). An element consists of
// name=value pairs between semicolons. Names may be in any case, and values may be quoted. The element must
// contain exactly one "for" with an address. A backslash inside the address is invalid, because proxies never
// write one.
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

// cutPair cuts off the first pair, at the first semicolon outside of quotes.
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

// maxAddressBytes is the longest text that is read as an address. It is enough for the longest IPv6 address
// with brackets, quotes, a zone and a port.
const maxAddressBytes = 80

// parseAddress reads an address as proxies write it: bare, in quotes, or with a port ("192.0.2.1:80",
// "[2001:db8::1]:80", or RFC 7239's obfuscated "_port"). IPv6 addresses may have brackets. Zones are dropped
// and IPv4 addresses in IPv6 form are unmapped, so a client has only one address.
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
		host, _, _ = strings.Cut(host, "%") // before parsing, because netip would keep each zone in memory
	} else if bracketed {
		return netip.Addr{}, false
	}
	address, err := netip.ParseAddr(host)
	return address.Unmap(), err == nil && isPortSuffix(port)
}

// isPortSuffix reports whether s is empty, or a colon with a port or an obfuscated port (RFC 7239, 6.2). The
// number of the port doesn't matter.
func isPortSuffix(s string) bool {
	if s == "" {
		return true
	}
	if s[0] != ':' || len(s) < 2 {
		return false
	}
	if s[1] == '_' {
		return len(s) > 2 && IsToken(s[1:])
	}
	for i := 1; i < len(s); i++ {
		if !isDigit(s[i]) {
			return false
		}
	}
	return len(s) <= len(":65535")
}

// appendNetwork appends the network around the address a. The class determines its size. An IPv6 client usually
// owns a /64 and can use any address in it, so a /64 corresponds to one IPv4 address. Households get a /56 and
// companies a /48 (RFC 6177), which correspond to /24 and /16.
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

// NetworkOf returns the network within which a client's address may change, at a mobile carrier or in an
// office. It is the /24, or for IPv6 the /48, because phones and laptops switch between several /64s.
func NetworkOf(client netip.Addr) netip.Prefix {
	bits := 48
	if client.Is4() {
		bits = 24
	}
	p, _ := client.Prefix(bits) // fails only for addresses with a zone
	return p
}

// appendAddress appends the whole address. If mapped is set, IPv4 addresses are written in IPv6 form, as
// dual-stack sockets report them.
func appendAddress(dst []byte, a netip.Addr, mapped bool) []byte {
	if mapped && a.Is4() {
		a = netip.AddrFrom16(a.As16())
	}
	return a.AppendTo(dst)
}

// bitsOf returns the length of the prefix by which a class groups an address.
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

// Secure reports whether a client connected over TLS, according to the connection or to a trusted peer. If
// X-Forwarded-Proto has several values, the first one counts, because the proxy nearest to the client wrote
// it.
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
