package proxy

import (
	"net/http"
	"strings"

	"tempomat/classify/standing"
	"tempomat/cpuaccount"
	"tempomat/proxy/http1"
)

// mayTrail tells whether a field may come after a body. Who merges it into the header
// would believe it late what nobody checked: how the message is framed and where it goes,
// who asks, what it may do, and how the content is to be read (RFC 9110, 6.5.1).
func mayTrail(name string) bool {
	switch name {
	case "Host", "Proxy", "Authorization", "Cookie", "Set-Cookie", "Expect", "Max-Forwards", "Cache-Control", "Pragma", "Range",
		"Realm", "Www-Authenticate", "Age", "Date", "Expires", "Location", "Retry-After", "Vary", "Warning",
		cpuaccount.CostHeader, standing.Header:
		return false
	}
	return http1.IsToken(name) && !isHop(name) && !tellsOrigin(name) && strings.IndexByte(name, '_') < 0 &&
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
	return name == cpuaccount.CostHeader || name == standing.Header || isNumber(name)
}
