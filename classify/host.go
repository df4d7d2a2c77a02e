package classify

import (
	"encoding/hex"
	"strings"
)

// hostOf is the host that a request is for, without what does not tell sites apart: case,
// the port, and the dot at the end of a name.
func hostOf(host string) string { return strings.ToLower(withoutPort(host)) }

func withoutPort(host string) string {
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
		host = host[:colon]
	}
	return strings.TrimSuffix(host, ".")
}

// appendHost appends the host that a request is for, or nothing if it has none. Of one that is
// longer than an ID its beginning is kept, and a hash of it all.
//
// A client can ask for any host. What is no name's or address's letter is folded, so that
// nothing else gets into tables and logs; how many there are, the limiter's table bounds.
func appendHost(dst []byte, host string) []byte {
	const kept, hashed = maxID - 17, 8
	host = withoutPort(host)
	for i := range min(len(host), maxID) {
		c := host[i]
		switch {
		case 'A' <= c && c <= 'Z':
			c |= 0x20
		case isLetter(c), isDigit(c), c == '.', c == '-', c == '_', c == ':', c == '[', c == ']':
		default:
			c = '?'
		}
		dst = append(dst, c)
	}
	if len(host) > maxID {
		sum := digest(host)
		dst = hex.AppendEncode(append(dst[:len(dst)-maxID+kept], '~'), sum[:hashed])
	}
	return dst
}
