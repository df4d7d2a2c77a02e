package classify

import (
	"net/http"
	"strings"
)

// Secure tells whether a client came over TLS, as its connection or a trusted peer
// says; of several the first, who is the nearest to the client.
func Secure(r *http.Request, trustedPeer bool) bool {
	if r.TLS != nil {
		return true
	}
	proto := r.Header["X-Forwarded-Proto"]
	if !trustedPeer || len(proto) == 0 {
		return false
	}
	first, _, _ := strings.Cut(proto[0], ",")
	return strings.EqualFold(trim(first), "https")
}
