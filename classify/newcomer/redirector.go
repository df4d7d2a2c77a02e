package newcomer

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"tempomat/classify"
)

// Redirector redirects newcomers and recognises them when they return. It keeps nothing of a
// client except that its address was redirected recently. Its methods may be called
// concurrently.
type Redirector struct {
	keys   keyRing
	recent *recent
	counts struct{ redirected, cameBack, served, again atomic.Uint64 }
}

// Counts is what a Redirector has done since it was made.
type Counts struct {
	Redirected uint64 `json:"redirected"` // requests
	CameBack   uint64 `json:"cameBack"`   // addresses that brought a pass after a redirect, once each
	Served     uint64 `json:"served"`     // requests that brought a valid pass
	Again      uint64 `json:"again"`      // not redirected, because their address was redirected recently
}

// New makes a Redirector with keys of its own.
func New() *Redirector {
	n := &Redirector{recent: newRecent(mostRecent)}
	n.keys.keys.Store(newKeys())
	return n
}

// SetKeys sets the key that signs passes, and another that is also accepted. All instances of a
// fleet have these, so a pass counts at each of them.
func (n *Redirector) SetKeys(signing, other [32]byte) {
	n.keys.keys.Store(&keys{now: signing, old: other, fleet: true})
}

// Verify reports whether a classified request brings back a pass that was given to
// its client's network and is still valid, and counts it. A request without our
// cookie costs one search of its Cookie header.
func (n *Redirector) Verify(now time.Time, r *http.Request, who *classify.Result) bool {
	if !n.keys.verify(now, r.Header["Cookie"], who.Client) {
		return false
	}
	n.counts.served.Add(1)
	if n.recent.comeBack(now, who.Client) {
		n.counts.cameBack.Add(1)
	}
	return true
}

// Eligible reports whether a classified request that Verify found no pass with may
// be redirected, should it have to wait: a person's navigation, as far as it can
// be seen, from an address that was not redirected recently.
//
// It remembers nothing yet. Several requests of one address that wait at the same
// time, as a browser's tabs do that open together, may all be redirected.
func (n *Redirector) Eligible(now time.Time, r *http.Request, who *classify.Result) bool {
	if !isNavigation(r, who) || hasMostPasses(now, r.Header["Cookie"]) {
		return false
	}
	if n.recent.has(now, who.Client) {
		n.counts.again.Add(1)
		return false
	}
	return true
}

// Redirect answers a request that is Eligible: with the same URL, a pass, and
// nothing else.
//
//   - 302, because all clients understand it as temporary. 307 differs for other methods than
//     GET only, and these are not Eligible.
//   - no-store: a stored one would be a circle.
//   - Vary: for caches that are told to keep what says no-store: who is back with
//     the cookie is not to get the redirect again.
//   - The Location is relative, without a host, so no Host field decides where a browser goes,
//     and a fragment stays.
//   - No Referrer-Policy: so the page gets the Referer of the link, not ours.
//   - No X-Robots-Tag: it would be held against the page that is redirected to.
func (n *Redirector) Redirect(now time.Time, w http.ResponseWriter, r *http.Request, who *classify.Result) {
	n.recent.add(now, who.Client)
	n.counts.redirected.Add(1)
	h := w.Header()
	if value, ok := n.keys.issue(now, r.Header["Cookie"], who.Client); ok {
		h.Add("Set-Cookie", setCookie(value, classify.Secure(r, who.TrustedPeer)))
	}
	h.Set("Location", locationOf(r.RequestURI))
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Cookie")
	h.Set("Content-Length", "0")
	w.WriteHeader(http.StatusFound)
}

// setCookie is a line of Set-Cookie. Lax, because a newcomer's link is mostly on another site's
// page; and for all paths, because it serves for the next page as well.
func setCookie(value string, secure bool) string {
	line := assignment + value + "; Path=/; Max-Age=" + strconv.Itoa(int(lifetime/time.Second)) + "; HttpOnly; SameSite=Lax"
	if secure {
		line += "; Secure"
	}
	return line
}

// Counts returns what it has done. It may be called at any time.
func (n *Redirector) Counts() Counts {
	c := &n.counts
	return Counts{
		Redirected: c.redirected.Load(), CameBack: c.cameBack.Load(), Served: c.served.Load(), Again: c.again.Load(),
	}
}

// AppendBinary appends the keys, so passes stay valid over a restart. A program that reads them
// can make passes.
func (n *Redirector) AppendBinary(b []byte) ([]byte, error) { return n.keys.appendBinary(b), nil }

// UnmarshalBinary takes in what AppendBinary told, before the first request. If
// that is too short or of another version it changes nothing.
func (n *Redirector) UnmarshalBinary(data []byte) error { return n.keys.unmarshalBinary(data) }

// isNavigation reports whether a request is a person's click on a link, as far as
// it can be seen from the request alone, and whether it loses nothing by a
// redirect. Where that is in doubt it is none: it waits like others.
func isNavigation(r *http.Request, who *classify.Result) bool {
	return r.Method == http.MethodGet && speaksNow(r, who) && !who.Exempt &&
		r.ContentLength == 0 && len(r.TransferEncoding) == 0 &&
		wantsPage(r.Header["Accept"]) && !hasTelltale(r.Header) &&
		isOr(r.Header["Sec-Fetch-Mode"], "navigate") && isOr(r.Header["Sec-Fetch-Dest"], "document") &&
		!hasOwnCookie(r.Header["Cookie"]) &&
		isLocation(r.RequestURI) && !isFeed(r.RequestURI) && isBrowser(r.Header["User-Agent"])
}

// speaksNow reports whether the client speaks what browsers do. A proxy before this one may
// not, and says nothing of them by that: that is nginx's default before 1.30.
func speaksNow(r *http.Request, who *classify.Result) bool {
	return r.ProtoAtLeast(1, 1) || who.TrustedPeer
}

// telltales are header fields that no navigation has, or not one that can be
// repeated as it was:
//
//   - Sec-Purpose and its predecessors: no person looks at that page yet.
//   - Range and its conditions, Authorization, X-Requested-With, Origin: a
//     download, an API, a script.
//   - Upgrade, Expect: the client waits for more than an answer.
//   - X-Forwarded-Prefix: the path that the browser knows is another one.
//
// If-None-Match and If-Modified-Since are none of them. A reader who comes back to
// a page sends them, and a redirect sets them aside (RFC 9110, 13.2.1) until the
// browser asks again; feed readers, who send them too, are told by other things.
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

// wantsPage reports whether HTML is asked for by name, without data or feeds: feed readers that
// look for a feed's address in pages ask for both.
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

// isOr reports whether a header field has that value, or is not there: browsers
// send Sec-Fetch fields over HTTPS only, and old ones never.
func isOr(lines []string, value string) bool {
	for _, line := range lines {
		if line != value {
			return false
		}
	}
	return true
}

// isFeed tells feeds, and other files that programs read, by their names: those
// of their kind, and those of the usual programs' feeds. It may take a page for
// one.
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

// isBrowser reports whether a client says that it is a browser, and nothing else
// in addition to that. Robots that tell who they are mostly give an address to ask at, and
// keep no cookies: a search engine that is sent in a circle takes the page for
// broken.
func isBrowser(agent []string) bool {
	return len(agent) == 1 && !strings.Contains(agent[0], "://") && classify.SaysBrowser(agent[0])
}

// maxTarget is the longest target that is repeated, in bytes: what every
// recipient is to support (RFC 9110, 4.1).
const maxTarget = 8000

// locationOf is a reference from the URL that a client asked for to the same URL.
// It is relative to that in its path as well, which a front may have cut a prefix
// off, or rewritten to a query: the client knows the whole of it, and the proxy
// does not.
func locationOf(target string) string {
	path, query, asks := strings.Cut(target, "?")
	if asks {
		return "?" + query
	}
	return "./" + path[strings.LastIndexByte(path, '/')+1:]
}

// isLocation reports whether a request target may be given back in a Location
// header, and names the same URL there: the scheme and the host are those that
// the client asked, whatever it says about them in the request.
//
// So it has to be a path of the same host for every reader of URLs, however
// lenient: no "//host", no "\" in the place of "/", no tabs and line ends, which
// browsers drop before they look for those, no absolute form. A # would become a
// fragment. A dot segment would be resolved to another path. Other segments that begin
// with a dot are excluded as well: "/.well-known/" and the like, where no person goes.
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
