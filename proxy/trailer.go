package proxy

import (
	"net/http"
	"strings"

	"tempomat/classify"
	"tempomat/classify/standing"
	"tempomat/cpuaccount"
)

// mayTrail tells whether a field may come after a body. A server that merges it into the header
// would believe late what was not checked: how the message is framed and where it goes,
// who asks, what it may do, and how the content is to be read (RFC 9110, 6.5.1).
func mayTrail(name string) bool {
	switch name {
	case "Host", "Proxy", "Authorization", "Cookie", "Set-Cookie", "Expect", "Max-Forwards", "Cache-Control", "Pragma", "Range",
		"Realm", "Www-Authenticate", "Age", "Date", "Expires", "Location", "Retry-After", "Vary", "Warning":
		return false
	}
	return !isHop(name) && !isPrivate(name) && !tellsOrigin(name) && classify.FoldedName(name) == name &&
		!strings.HasPrefix(name, "Content-") && !strings.HasPrefix(name, "If-")
}

// trailers are the fields that may come after a body. The values are shared.
func trailers(src http.Header) (dst http.Header) {
	for name, values := range src {
		if !mayTrail(name) {
			continue
		}
		if dst == nil {
			dst = make(http.Header, len(src))
		}
		dst[name] = values
	}
	return dst
}

// isPrivate tells whether the backend says something in that field to the proxy alone.
func isPrivate(name string) bool {
	return name == cpuaccount.CostHeader || name == standing.Header || name == numberHeader
}
