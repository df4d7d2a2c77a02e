package classify

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
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
	var scratch [maxHeaderBytes]byte
	n := copy(scratch[:], value)
	sum := sha256.Sum256(scratch[:n])
	return hex.AppendEncode(dst, sum[:8])
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
