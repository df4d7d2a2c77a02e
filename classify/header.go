package classify

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"unicode/utf8"
)

// maxHeaderBytes is the most bytes of a header's value that are hashed.
const maxHeaderBytes = 4096

// appendHeaderID appends 16 hexadecimal digits: the first 8 bytes of the SHA-256 of the header's first value.
// The value may be a secret, such as an API key or a cookie, which must not appear in a table or a log. The
// hash has no key, so all instances compute the same ID for a client. As a consequence, anyone who guesses a
// value can use the ID to confirm the guess.
//
// If the header is missing or empty, nothing is appended; otherwise all clients without it would share one
// bucket.
func appendHeaderID(dst []byte, name string, h http.Header) []byte {
	value := h.Get(name)
	if value == "" {
		return dst
	}
	sum := digest(value)
	return hex.AppendEncode(dst, sum[:8])
}

// digest returns the SHA-256 of a text's first maxHeaderBytes.
func digest(text string) [sha256.Size]byte {
	var scratch [maxHeaderBytes]byte
	return sha256.Sum256(scratch[:copy(scratch[:], text)])
}

// IsToken reports whether s is a token (RFC 9110, 5.6.2), such as the name of a header.
func IsToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if isLetter(c) || isDigit(c) {
			continue
		}
		switch c {
		case '!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~':
		default:
			return false
		}
	}
	return s != ""
}

// FoldedName returns the name under which CGI programs see a header (RFC 3875, 4.1.18). CGI servers turn every
// character that is neither a letter nor a digit into an underscore, so X_Real_IP and X.Real!IP both look like
// X-Real-IP to a program. A name of letters, digits and hyphens is returned unchanged.
func FoldedName(name string) string {
	for i := range len(name) {
		if c := name[i]; !isLetter(c) && !isDigit(c) && c != '-' {
			return http.CanonicalHeaderKey(strings.Map(func(c rune) rune {
				if b := byte(c); c < utf8.RuneSelf && (isLetter(b) || isDigit(b)) { //nolint:gosec // only ASCII is looked at
					return c
				}
				return '-'
			}, name))
		}
	}
	return name
}

// hostOf returns a host in lower case, without its port and trailing dot.
func hostOf(host string) string { return strings.ToLower(withoutPort(host)) }

func withoutPort(host string) string {
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
		host = host[:colon]
	}
	return strings.TrimSuffix(host, ".")
}

// appendHost appends the host of a request, or nothing if there is none. A host that is too long for an ID is cut,
// and a hash of the whole host is appended.
//
// A client can send any host. Characters that don't occur in names and addresses are replaced with ?, so they
// never get into tables and logs. The size of the limiter's table limits the number of hosts.
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
