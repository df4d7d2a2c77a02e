package proxy

import (
	"net/http"
	"net/textproto"
	"strings"

	"tempomat/proxy/http1"
)

// isHop tells whether a field is for one connection only (RFC 9110, 7.6.1).
// Trailer is told anew, by what trailers there are.
func isHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// named are the fields of a header that Connection names: for this connection only, too.
// Those that are for everybody are not among them, whatever it says (RFC 9110, 7.6.1): a
// client could have a proxy before this one say nothing of it. Each is there once, however
// often it is named.
func named(h http.Header) map[string]bool {
	var names map[string]bool // most often none
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = textproto.TrimString(name); name == "" || strings.EqualFold(name, "close") || strings.EqualFold(name, "keep-alive") {
				continue
			}
			name = textproto.CanonicalMIMEHeaderKey(name)
			if _, told := h[name]; !told || isForAll(name) {
				continue
			}
			if names == nil {
				names = make(map[string]bool)
			}
			names[name] = true
		}
	}
	return names
}

// isForAll tells whether a field is for everybody on the way.
func isForAll(name string) bool {
	switch name {
	case "Host", "Authorization", "Cookie", "Set-Cookie", "Cache-Control", "Date", "Expect", "Location", "Origin", "Pragma",
		"Range", "Referer", "User-Agent", "Vary", "Via", "Etag", "Max-Forwards", loopHeader:
		return true
	}
	return strings.HasPrefix(name, "Content-") || strings.HasPrefix(name, "Accept") || strings.HasPrefix(name, "If-") || tellsOrigin(name)
}

// endToEnd copies the fields of an answer that are for the client, too. The values are
// shared.
func endToEnd(dst, src http.Header) {
	private := named(src)
	for name, values := range src {
		if !isHop(name) && !private[name] && !isPrivate(name) {
			dst[name] = values
		}
	}
}

// strip takes out of an answer's header, which has these names, what is not for the client.
func strip(h http.Header, names []http1.Name) {
	private := named(h)
	for i := range names {
		if name := names[i].Canonical; isHop(name) || private[name] || isPrivate(name) {
			delete(h, name)
		}
	}
}

// upgradeOf is the protocol that a header asks for or agrees to; empty: none.
func upgradeOf(h http.Header) string {
	if !hasToken(h["Connection"], "Upgrade") {
		return ""
	}
	return h.Get("Upgrade")
}

// upgradeAsked is the protocol that the client asks for; empty: none. HTTP/1.0 knows of
// none (RFC 9110, 7.8), and what follows a request with a body may still be that.
func (x *exchange) upgradeAsked() string {
	if !x.request.ProtoAtLeast(1, 1) || x.body.ReadCloser != nil {
		return ""
	}
	return upgradeOf(x.request.Header)
}

// mayUpgrade is what of the protocols that a client asks for it may have, the first one;
// empty: none, and the backend is not asked. What a backend and its client agreed on
// passes unseen: h2c would carry requests past everything.
func (p *Policy) mayUpgrade(asked string) string {
	for protocol := range strings.SplitSeq(asked, ",") {
		protocol = textproto.TrimString(protocol)
		for _, allowed := range p.Upgrades {
			if strings.EqualFold(protocolName(protocol), allowed) && printable(protocol) {
				return protocol
			}
		}
	}
	return ""
}

// protocolName is a protocol without its version.
func protocolName(protocol string) string {
	name, _, _ := strings.Cut(protocol, "/")
	return name
}

// hasToken tells whether a list has a token, in any case of letters.
func hasToken(lines []string, token string) bool {
	for _, line := range lines {
		for t := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(textproto.TrimString(t), token) {
				return true
			}
		}
	}
	return false
}

// printable tells whether all of s is printable ASCII.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
