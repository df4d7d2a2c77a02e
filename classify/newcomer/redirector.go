package newcomer

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"tempomat/classify"
)

// Redirector redirects newcomers and recognises them when they return. The only clients that it stores are the
// recently redirected addresses. Its methods may be called concurrently.
type Redirector struct {
	keys   atomic.Pointer[keys]
	recent *recent
	counts struct{ redirected, cameBack, served, again atomic.Uint64 }
}

// Counts are a Redirector's counters since it was made.
type Counts struct {
	Redirected uint64 `json:"redirected"` // requests
	CameBack   uint64 `json:"cameBack"`   // addresses that came back with a pass, counted once for each redirect
	Served     uint64 `json:"served"`     // requests with a valid pass
	Again      uint64 `json:"again"`      // requests not redirected because their address had been redirected recently
}

// New makes a Redirector with a new key.
func New() *Redirector {
	n := &Redirector{recent: newRecent()}
	n.keys.Store(newKeys())
	return n
}

// SetKeys sets the key that signs passes, and another one that is also accepted. All instances of a fleet use
// the same keys, so each of them accepts the others' passes.
func (n *Redirector) SetKeys(signing, other [32]byte) {
	n.keys.Store(&keys{now: signing, old: other, fleet: true})
}

// Verify reports whether a classified request has a valid pass that was issued for its client's network. If
// so, it counts the request. If there is no such cookie, this costs one search of the Cookie header.
func (n *Redirector) Verify(now time.Time, r *http.Request, res *classify.Result) bool {
	if !n.keys.Load().verify(now, r.Header["Cookie"], res.Client) {
		return false
	}
	n.counts.served.Add(1)
	if n.recent.comeBack(now, res.Client) {
		n.counts.cameBack.Add(1)
	}
	return true
}

// Eligible reports whether a classified request without a valid pass may be redirected if it has to wait. The
// request must look like a person's navigation, and its address must not have been redirected recently.
//
// Eligible stores nothing. If several requests from one address wait at the same time, for example from tabs
// that were opened together, all of them may be redirected.
func (n *Redirector) Eligible(now time.Time, r *http.Request, res *classify.Result) bool {
	if !isNavigation(r, res) || hasMostPasses(now, r.Header["Cookie"]) {
		return false
	}
	if n.recent.has(now, res.Client) {
		n.counts.again.Add(1)
		return false
	}
	return true
}

// Redirect answers an eligible request with a redirect to the same URL and a pass.
//
//   - The status is 302, because all clients treat it as temporary. 307 differs only for methods that aren't
//     eligible.
//   - no-store is needed because a stored redirect would send the browser around in circles.
//   - Vary is for caches that ignore no-store. They must not send the stored redirect to a client that comes
//     back with the cookie.
//   - The Location is relative and has no host. The Host header therefore can't change where a browser goes,
//     and the browser keeps a fragment.
//   - There is no Referrer-Policy, so the page still gets the Referer of the original link.
//   - There is no X-Robots-Tag, because search engines would apply it to the page.
func (n *Redirector) Redirect(now time.Time, w http.ResponseWriter, r *http.Request, res *classify.Result) {
	n.recent.add(now, res.Client)
	n.counts.redirected.Add(1)
	h := w.Header()
	value := n.keys.Load().issue(now, r.Header["Cookie"], res.Client)
	h.Add("Set-Cookie", setCookie(value, classify.Secure(r, res.TrustedPeer)))
	h.Set("Location", locationOf(r.RequestURI))
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Cookie")
	h.Set("Content-Length", "0")
	w.WriteHeader(http.StatusFound)
}

// setCookie returns a Set-Cookie line. SameSite is Lax because newcomers mostly follow links from other
// sites. The cookie is for all paths, because the next page needs it as well.
func setCookie(value string, secure bool) string {
	line := assignment + value + "; Path=/; Max-Age=" + strconv.Itoa(int(lifetime/time.Second)) + "; HttpOnly; SameSite=Lax"
	if secure {
		line += "; Secure"
	}
	return line
}

// Counts returns the current values of the counters.
func (n *Redirector) Counts() Counts {
	c := &n.counts
	return Counts{
		Redirected: c.redirected.Load(), CameBack: c.cameBack.Load(), Served: c.served.Load(), Again: c.again.Load(),
	}
}

// keysVersion is the first byte of the saved state. The key follows.
const keysVersion = 2

var errKeys = errors.New("not a key written by this version")

// AppendBinary appends the key, so passes stay valid after a restart. A program that reads the key can make
// passes.
func (n *Redirector) AppendBinary(b []byte) ([]byte, error) {
	return append(append(b, keysVersion), n.keys.Load().now[:]...), nil
}

// UnmarshalBinary restores what AppendBinary appended. Call it before the first request. If the data has
// a different format, it returns an error and changes nothing. The keys of a fleet are kept.
func (n *Redirector) UnmarshalBinary(data []byte) error {
	switch {
	case n.keys.Load().fleet:
		return nil
	case len(data) != 1+keySize || data[0] != keysVersion:
		return errKeys
	}
	key := [keySize]byte(data[1:])
	n.keys.Store(&keys{now: key, old: key})
	return nil
}

// isNavigation reports whether a request looks like a person's click on a link and loses nothing by a
// redirect. In case of doubt it returns false, and the request waits like others.
func isNavigation(r *http.Request, res *classify.Result) bool {
	return r.Method == http.MethodGet && speaksNow(r, res) && !res.Exempt &&
		r.ContentLength == 0 && len(r.TransferEncoding) == 0 &&
		wantsPage(r.Header["Accept"]) && !hasTelltale(r.Header) &&
		isOr(r.Header["Sec-Fetch-Mode"], "navigate") && isOr(r.Header["Sec-Fetch-Dest"], "document") &&
		!hasOwnCookie(r.Header["Cookie"]) &&
		isLocation(r.RequestURI) && !isFeed(r.RequestURI) && isBrowser(r.Header["User-Agent"])
}

// speaksNow reports whether the client uses a version of HTTP that browsers use. If a proxy forwarded the
// request, its version says nothing about the client: nginx before 1.30, for example, uses HTTP/1.0 by
// default.
func speaksNow(r *http.Request, res *classify.Result) bool {
	return r.ProtoAtLeast(1, 1) || res.TrustedPeer
}

// telltales are headers of requests that aren't navigations, or that can't be repeated unchanged:
//
//   - Sec-Purpose and its predecessors mean that no person is looking at the page yet.
//   - Range and its conditions, Authorization, X-Requested-With and Origin are sent by downloads,
//     APIs and scripts.
//   - With Upgrade and Expect, the client expects more than a plain answer.
//   - With X-Forwarded-Prefix, the browser uses a different path for the page.
//
// If-None-Match and If-Modified-Since are not among them. Browsers send them when a person returns to a page,
// and repeat them after a redirect. Feed readers also send them, but are recognised by other properties.
//
//nolint:gochecknoglobals // a constant
var telltales = [...]string{
	"Sec-Purpose", "Purpose", "X-Purpose", "X-Moz",
	"Range", "If-Range", "If-Match", "If-Unmodified-Since", "Authorization", "X-Requested-With", "Origin",
	"Upgrade", "Expect", "X-Forwarded-Prefix",
}

func hasTelltale(h http.Header) bool {
	for _, name := range telltales {
		if len(h[name]) > 0 {
			return true
		}
	}
	return false
}

// wantsPage reports whether Accept lists HTML, and neither data nor feeds. Feed readers that search a page for
// the address of its feed list both.
func wantsPage(accept []string) bool {
	page := false
	for _, line := range accept {
		for _, other := range [...]string{"json", "rss", "atom"} {
			if strings.Contains(line, other) {
				return false
			}
		}
		page = page || strings.Contains(line, "text/html")
	}
	return page
}

// isOr reports whether a header has the given value or is missing. Browsers send Sec-Fetch headers only over
// HTTPS, and old browsers never do.
func isOr(lines []string, value string) bool {
	for _, line := range lines {
		if line != value {
			return false
		}
	}
	return true
}

// isFeed recognises feeds and other files for programs by the path and query of their URL. It may mistake a
// page for a feed.
func isFeed(target string) bool {
	path, query, _ := strings.Cut(strings.ToLower(target), "?")
	if strings.Contains(query, "feed") || strings.Contains(query, "=rss") || strings.Contains(query, "=atom") {
		return true
	}
	path = strings.TrimSuffix(path, "/")
	name := path[strings.LastIndexByte(path, '/')+1:]
	switch name {
	case "feed", "feeds", "rss", "rss2", "atom", "rdf":
		return true
	}
	switch name[strings.LastIndexByte(name, '.')+1:] {
	case "rss", "atom", "rdf", "xml", "json", "ics", "txt":
		return strings.Contains(name, ".")
	}
	return false
}

// isBrowser reports whether the User-Agent names a browser and nothing else. Robots that identify themselves
// usually add a URL. They must not be redirected: they keep no cookies, and a search engine that is
// redirected in circles would consider the page broken.
func isBrowser(agent []string) bool {
	return len(agent) == 1 && !strings.Contains(agent[0], "://") && classify.SaysBrowser(agent[0])
}

// maxTarget is the longest request target, in bytes, that is repeated in a Location. Every recipient should
// support this length (RFC 9110, 4.1).
const maxTarget = 8000

// locationOf returns a reference to the requested URL that is relative to this URL, even in its path. A server
// in front may have removed a prefix from the path or rewritten it to a query, so only the client knows the
// original path.
func locationOf(target string) string {
	path, query, asks := strings.Cut(target, "?")
	if asks {
		return "?" + query
	}
	return "./" + path[strings.LastIndexByte(path, '/')+1:]
}

// isLocation reports whether a request target means the same URL in a Location header. The browser then stays
// on the same scheme and host, whatever the request said about them.
//
// Every URL parser, however lenient, must read the target as a path on the same host. The target must
// therefore not begin with "//" or contain "\". It must not contain tabs or line breaks, which browsers remove
// before they parse a URL. A # would begin a fragment, and a dot segment would be resolved. Other segments
// that begin with a dot, such as "/.well-known/", are also excluded, because no person visits them.
func isLocation(target string) bool {
	if target == "" || len(target) > maxTarget || target[0] != '/' || strings.HasPrefix(target, "//") {
		return false
	}
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c >= 0x7f || c == '\\' || c == '#' {
			return false
		}
	}
	path, _, _ := strings.Cut(target, "?")
	for {
		slash := strings.IndexByte(path, '/')
		if slash < 0 {
			return true
		}
		path = path[slash+1:]
		if strings.HasPrefix(path, ".") || strings.HasPrefix(path, "%2e") || strings.HasPrefix(path, "%2E") {
			return false
		}
	}
}
