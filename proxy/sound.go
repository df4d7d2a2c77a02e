package proxy

import (
	"net/http"
	"strings"

	"tempomat/proxy/http1"
)

// isSound tells whether every backend reads the same in a request: HTTP/2 has no line
// that a space could end, and lets anything be in the words of one.
func isSound(r *http.Request) bool {
	return http1.IsToken(r.Method) && isSoundTarget(r.RequestURI) &&
		printable(r.Host) && !strings.ContainsAny(r.Host, " /?#@\\")
}

// isSoundTarget tells it of what is asked for: a fragment is none of its parts (RFC
// 9112, 3.2), and some backends cut it off.
func isSoundTarget(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == 0x7f || c == '#' {
			return false
		}
	}
	return true
}
