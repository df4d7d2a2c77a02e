package classify

import (
	"net/http"
	"net/netip"
)

// AddressHeader says where trusted proxies tell the client's address.
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

// Peer is the address of who has connected, and whether it is a trusted proxy. Remote is as
// in http.Request.RemoteAddr.
func (c *Classifier) Peer(remote string) (peer netip.Addr, trusted bool) {
	peer, local := parsePeer(remote)
	return peer, local || c.trusted.Contains(peer)
}

// parsePeer reads http.Request.RemoteAddr. The peer of a unix socket ("", "@",
// "@name" or "/path") is local: who may connect was decided by the socket's
// permissions, it is a proxy on this machine, and it is trusted whatever
// TrustedProxies says; without a usable header its clients are charged to
// 127.0.0.1. Anything else that is no address is not trusted and is charged to
// 0.0.0.0.
func parsePeer(remote string) (peer netip.Addr, local bool) {
	if remote == "" || remote[0] == '@' || remote[0] == '/' {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), true
	}
	if address, ok := parseAddress(remote); ok {
		return address, false
	}
	return netip.IPv4Unspecified(), false
}
