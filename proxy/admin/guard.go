package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"tempomat/proxy/admin/api"
)

// guard checks requests before the API and the page get them. It rejects requests that a page of another site
// sent. Over TCP it also requires the token, except for the page itself.
type guard struct {
	open   *http.ServeMux // the page and /v1/access, for which no token is needed
	next   http.Handler   // the API
	access *Access
	socket bool // whether requests come over the unix socket
}

// newGuard returns a guard in front of the API next.
func newGuard(next http.Handler, access *Access, socket bool) *guard {
	g := &guard{open: pages(), next: next, access: access, socket: socket}
	// The page reads this document to find out whether it must ask the user for the token.
	g.open.HandleFunc("GET /v1/access", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, api.AccessReply{Version: api.Version, Token: !socket})
	})
	return g
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("X-Frame-Options", "DENY")
	if !g.access.isOurs(r.Host, g.socket) {
		fail(w, &failure{http.StatusMisdirectedRequest,
			fmt.Sprintf("unknown Host %q: use an IP address or localhost, or add the name to admin.hosts", r.Host)})
		return
	}
	if _, pattern := g.open.Handler(r); pattern != "" {
		g.open.ServeHTTP(w, r)
		return
	}
	if err := g.refuseUse(r); err != nil {
		fail(w, err)
		return
	}
	g.next.ServeHTTP(w, r)
}

// refuseUse returns why a request isn't allowed to use the API, or nil if it is allowed.
func (g *guard) refuseUse(r *http.Request) error {
	if isCrossSite(r) {
		return &failure{http.StatusForbidden, "a page from another site sent this request (Origin, Sec-Fetch-Site)"}
	}
	acts := r.Method != http.MethodGet && r.Method != http.MethodHead
	// A user who can open the socket may do everything with the doctor. But a browser reaches the socket through a
	// tunnel, which every user of the browser's machine can use. Therefore changes by a page need the token.
	if !g.socket || acts && isFromBrowser(r) {
		if err := g.refuseToken(r); err != nil {
			return err
		}
	}
	return nil
}

// refuseToken rejects requests without the right token. It doesn't count wrong tokens, because a token of 16
// characters or more can't be guessed, and a count by address would lock out an administrator who shares an
// attacker's address.
func (g *guard) refuseToken(r *http.Request) error {
	token := bearer(r)
	switch {
	case !g.access.Granted():
		return &failure{http.StatusUnauthorized, "there is no token: name its file in admin.token; if you did, the log shows what is wrong with the file"}
	case token == "":
		return &failure{http.StatusUnauthorized, "the token is missing: send Authorization: Bearer with the token from the file in admin.token"}
	case !g.access.isRight(token):
		return &failure{http.StatusUnauthorized, "the token is wrong"}
	}
	return nil
}

// Access holds the token and the host names for requests over TCP. The zero Access rejects all requests over
// TCP. Its methods may be called concurrently.
type Access struct {
	granted atomic.Pointer[grant]
}

type grant struct {
	token [sha256.Size]byte
	hosts []string // accepted values of Host, in lower case
}

// Set sets the token, and the host names that requests may use in addition to addresses and localhost. If the
// token is empty, all requests are rejected.
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

// Granted reports whether a token is set.
func (a *Access) Granted() bool { return a.granted.Load() != nil }

// bearer returns the token of a request, or an empty string if it has none or several.
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

// isRight compares hashes in constant time. Its duration reveals neither the token's characters nor its
// length.
func (a *Access) isRight(token string) bool {
	g := a.granted.Load()
	if g == nil || token == "" {
		return false
	}
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
}

// isOurs reports whether a request's Host is a name of this API. The owner of another site can point the site's
// name at this address (DNS rebinding). Browsers would then treat pages of that site as pages of this API, and
// only the Host shows the difference. On the unix socket, names without a dot are also allowed, because no site
// on the internet has such a name.
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

// isFromBrowser reports whether a page in a browser sent a request.
func isFromBrowser(r *http.Request) bool {
	return r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != ""
}

// isCrossSite reports whether a page of another site sent a request.
func isCrossSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin":
	case "none": // the user typed the address or used a bookmark, so no other site sent the request
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
	return len(origins) > 1 || err != nil || !strings.EqualFold(u.Host, r.Host) // the Origin "null" has no host
}

type peerKey struct{}

// withPeer adds the other end of a connection to the context: the user of a unix socket, if the kernel reports
// the user, or the address.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	by := "unknown"
	if u, ok := c.(*net.UnixConn); ok {
		by = peerOf(u)
	} else if a := c.RemoteAddr(); a.Network() == "tcp" {
		by = "token, from " + a.String()
	}
	return context.WithValue(ctx, peerKey{}, by)
}

// peerOf describes the user at the other end of a unix socket.
func peerOf(c *net.UnixConn) string {
	by := "unknown"
	raw, err := c.SyscallConn()
	if err != nil {
		return by
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			by = fmt.Sprintf("uid %d", cred.Uid)
		}
	})
	return by
}

// askedBy returns the user who asks, for the log.
func askedBy(ctx context.Context) string {
	by, _ := ctx.Value(peerKey{}).(string)
	return by
}
