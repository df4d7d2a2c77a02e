package proxy

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strings"
)

// requestHeader is the field of an answer that tempomat itself makes which has the id of
// the request: that of the log line, to ask after it.
const requestHeader = "X-Request-Id"

// identify gives the request an id, if it has none: eight hexadecimal digits.
func (x *exchange) identify() {
	if x.id == "" {
		var id [4]byte
		binary.BigEndian.PutUint32(id[:], rand.Uint32()) //nolint:gosec // to find a log line by, nothing secret
		x.id = hex.EncodeToString(id[:])
	}
}

// longestID is how many bytes an id has at most that a proxy before this one gave.
const longestID = 64

// givenID is the id that a trusted proxy gave the request; empty: none, or none that
// may be shown anywhere.
func givenID(h http.Header) string {
	for _, name := range [...]string{"X-Request-Id", "Request-Id"} {
		if lines := h[name]; len(lines) == 1 && isSoundID(lines[0]) {
			return strings.Clone(lines[0]) // or it would keep the memory of the whole header
		}
	}
	return ""
}

// isSoundID tells whether an id may be shown as it is, in a page, a header, a log or a
// terminal, and given to a program: it must not pass for an option.
func isSoundID(id string) bool {
	for i := range len(id) {
		c := id[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_.:=+/@", c) >= 0) {
			return false
		}
	}
	return id != "" && id[0] != '-' && len(id) <= longestID
}
