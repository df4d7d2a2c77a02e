package classify

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

// maxHeaderBytes is how much of a header's value tells keys apart.
const maxHeaderBytes = 4096

// appendHeaderID appends 16 hexadecimal digits: the first 8 bytes of the
// SHA-256 of the header's first value. The value may be a secret, an API key or
// a cookie, and must not be readable in a table or a log. The hash has no key,
// so that every sidecar gives the same client the same ID; a value that can be
// guessed can therefore be confirmed from its ID.
//
// Nothing is appended without the header or with an empty one: all clients
// that lack it would otherwise share one bucket.
func appendHeaderID(dst []byte, name string, r *http.Request) []byte {
	var value string
	if name == "Host" {
		value = r.Host // net/http keeps it apart
	} else if lines := r.Header[name]; len(lines) > 0 {
		value = lines[0]
	}
	if value == "" {
		return dst
	}
	sum := digest(value)
	return hex.AppendEncode(dst, sum[:8])
}

// digest is the SHA-256 of a text, as far as it tells keys apart. Most are short, and to
// clear memory for a long one takes as long as the rest.
func digest(text string) [sha256.Size]byte {
	const short = 256
	if len(text) <= short {
		var scratch [short]byte
		return sha256.Sum256(scratch[:copy(scratch[:], text)])
	}
	return digestOfLong(text)
}

func digestOfLong(text string) [sha256.Size]byte {
	var scratch [maxHeaderBytes]byte
	return sha256.Sum256(scratch[:copy(scratch[:], text)])
}

// isToken reports whether s is a token (RFC 9110, 5.6.2), as a header's name is.
func isToken(s string) bool {
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

// FoldedName is the field that a server takes a canonical name for if it passes fields on in its
// environment (CGI, RFC 3875, 4.1.18). Such servers turn every character that is neither a
// letter nor a digit into an underscore: to them X_Real_IP and X.Real!IP are X-Real-IP. A name of
// letters, digits and hyphens is returned as it is.
func FoldedName(name string) string {
	isOdd := func(c rune) bool {
		letter := c | 0x20
		return !('a' <= letter && letter <= 'z' || '0' <= c && c <= '9' || c == '-')
	}
	if strings.IndexFunc(name, isOdd) < 0 {
		return name
	}
	return http.CanonicalHeaderKey(strings.Map(func(c rune) rune {
		if isOdd(c) {
			return '-'
		}
		return c
	}, name))
}
