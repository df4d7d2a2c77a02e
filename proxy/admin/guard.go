package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"mime"
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

// guard is before the API and the page. It refuses requests that a page of another site
// sent. Over TCP it asks for the token as well; only the page itself can be had without.
type guard struct {
	open   *http.ServeMux // the page, and whether it needs the token
	next   http.Handler   // the API
	access *Access
	socket bool // requests come over the unix socket
}

// newGuard is before the API, which next is.
func newGuard(next http.Handler, access *Access, socket bool) *guard {
	g := &guard{open: pages(), next: next, access: access, socket: socket}
	// The page is to know whether it has to ask for the token before it is denied anything.
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

// refuseUse is what holds for the API.
func (g *guard) refuseUse(r *http.Request) error {
	if isCrossSite(r) {
		return &failure{http.StatusForbidden, "a page of another site sent this (Origin, Sec-Fetch-Site)"}
	}
	acts := r.Method != http.MethodGet && r.Method != http.MethodHead
	// A user who reaches the socket may do everything with the doctor, but a page there may
	// have been opened for another person to look at.
	if !g.socket || acts && isFromBrowser(r) {
		if err := g.refuseToken(r); err != nil {
			return err
		}
	}
	if acts && (!g.socket || isFromBrowser(r)) {
		kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil || kind != "application/json" {
			return &failure{http.StatusForbidden, "the Content-Type must be application/json"}
		}
	}
	return nil
}

// refuseToken refuses requests without the right token. Wrong ones are not counted: a token of 16
// characters or more is not found by guessing, and a count by address would keep out an
// administrator who shares the address of an attacker.
func (g *guard) refuseToken(r *http.Request) error {
	token := bearer(r)
	switch {
	case !g.access.Granted():
		return &failure{http.StatusUnauthorized, "there is no token: name its file in admin.token; if you did, the log shows what is wrong with the file"}
	case token == "":
		return &failure{http.StatusUnauthorized, "the token is missing: send Authorization: Bearer with what admin.token holds"}
	case !g.access.isRight(token):
		return &failure{http.StatusUnauthorized, "the token is wrong"}
	}
	return nil
}

// Access decides about requests over TCP: the token, and the names. The zero Access lets no
// request in over TCP. Its methods may be called concurrently.
type Access struct {
	granted atomic.Pointer[grant]
}

type grant struct {
	token [sha256.Size]byte
	hosts []string // in lower case
}

// Set puts a token in force, and the host names by which the API may be reached in addition to
// addresses and localhost. An empty token lets no request in.
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

// Granted reports whether there is a token in force.
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

// isRight compares hashes in constant time, so its duration shows neither the token's
// characters nor its length.
func (a *Access) isRight(token string) bool {
	g := a.granted.Load()
	if g == nil || token == "" {
		return false
	}
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
}

// isOurs reports whether a request is meant for this API. A page from elsewhere can have its
// own name lead to our address (DNS rebinding), and would then pass for ours, except for the
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

// isFromBrowser reports whether a page sent a request, rather than a program of the
// administrator's.
func isFromBrowser(r *http.Request) bool {
	return r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != ""
}

// isCrossSite reports whether a page of another site sent a request.
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

type peerKey struct{}

// withPeer notes who is at the other end of a connection: the user of a unix socket, if
// that can be known, else the address.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	by := ""
	if u, ok := c.(*net.UnixConn); ok {
		by = peerOf(u)
	} else if a := c.RemoteAddr(); a.Network() == "tcp" {
		by = "token, from " + a.String()
	}
	return context.WithValue(ctx, peerKey{}, by)
}

// peerOf is the user at the other end of a unix socket, as the kernel knows it; empty: it
// does not.
func peerOf(c *net.UnixConn) (by string) {
	raw, err := c.SyscallConn()
	if err != nil {
		return ""
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			by = fmt.Sprintf("uid %d", cred.Uid)
		}
	})
	return by
}

// askedBy names the user who asks, for the log.
func askedBy(ctx context.Context) string {
	if by, ok := ctx.Value(peerKey{}).(string); ok && by != "" {
		return by
	}
	return "unknown"
}
