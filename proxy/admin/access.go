package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
)

// Access says who may ask over TCP, and by which names. The zero Access lets nobody in over
// TCP. Its methods may be called concurrently.
type Access struct {
	granted atomic.Pointer[grant]
}

type grant struct {
	token [sha256.Size]byte
	hosts []string // in lower case
}

// Set puts a token in force, and the names that the API may be asked for by beside addresses
// and localhost. An empty token lets nobody in.
func (a *Access) Set(token string, hosts []string) {
	if token == "" {
		a.granted.Store(nil)
		return
	}
	g := &grant{token: sha256.Sum256([]byte(token))}
	for _, h := range hosts {
		g.hosts = append(g.hosts, strings.ToLower(h))
	}
	a.granted.Store(g)
}

// Granted tells whether there is a token in force.
func (a *Access) Granted() bool { return a.granted.Load() != nil }

// bearer is the token that a request was sent with; empty: none, or it makes no sense.
func bearer(r *http.Request) string {
	given := r.Header.Values("Authorization")
	if len(given) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return token
}

// isRight compares hashes, in constant time, so that neither the token's letters nor its
// length show in how long it takes.
func (a *Access) isRight(token string) bool {
	g := a.granted.Load()
	if g == nil || token == "" {
		return false
	}
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
}

// isOurs tells whether a request is meant for this API. A page from elsewhere can have its
// own name lead to our address (DNS rebinding), and would then pass for ours, but for the
// name. At the unix socket, names without a dot are ours too: no such page has one, and its
// users may write what they like.
func (a *Access) isOurs(host string, socket bool) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" {
		return true
	}
	if socket && !strings.Contains(host, ".") {
		return true
	}
	g := a.granted.Load()
	return g != nil && slices.Contains(g.hosts, host)
}

// isFromBrowser tells whether a page sent a request, rather than a program of the
// administrator's.
func isFromBrowser(r *http.Request) bool {
	return r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != ""
}

// isCrossSite tells whether a page of another site sent a request.
func isCrossSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin":
	case "none": // its user typed the address: only for reading
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			return true
		}
	default:
		return true
	}
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return false
	}
	u, err := url.Parse(origins[0])
	return len(origins) > 1 || err != nil || !strings.EqualFold(u.Host, r.Host) // the Origin null has no host
}
