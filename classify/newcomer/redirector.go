package newcomer

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"tempomat/classify"
)

// Redirector redirects newcomers and knows them as they come back. It keeps
// nothing of a client but that its address was redirected lately. Its methods
// may be called concurrently.
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
	Again      uint64 `json:"again"`      // that would have been redirected, had their address not been lately
}

// New makes a Redirector with keys of its own.
func New(now time.Time) *Redirector {
	n := &Redirector{recent: newRecent(recentSets)}
	n.keys.keys.Store(newKeys(now))
	return n
}

// Verify tells whether a classified request brings back a pass that was given to
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

// Eligible tells whether a classified request that Verify found no pass with may
// be redirected, should it have to wait: a person's navigation, as far as it can
// be seen, from an address that was not redirected lately.
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
//   - 302, as it is the one that everybody understands as temporary. 307 differs
//     for other methods than GET only, and these are not Eligible.
//   - no-store: a stored one would be a circle.
//   - Vary: for caches that are told to keep what says no-store: who is back with
//     the cookie is not to get the redirect again.
//   - The Location is a relative one, without a host, so that nobody's Host field
//     decides where a browser goes, and a fragment stays.
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

// setCookie is a line of Set-Cookie. Lax, as a newcomer's link mostly is on
// another site's page; and for all paths, as it serves for the next page, too.
func setCookie(value string, secure bool) string {
	line := assignment + value + "; Path=/; Max-Age=" + strconv.Itoa(int(lifetime/time.Second)) + "; HttpOnly; SameSite=Lax"
	if secure {
		line += "; Secure"
	}
	return line
}

// Counts tells what it has done. It may be called at any time.
func (n *Redirector) Counts() Counts {
	c := &n.counts
	return Counts{
		Redirected: c.redirected.Load(), CameBack: c.cameBack.Load(), Served: c.served.Load(), Again: c.again.Load(),
	}
}

// AppendBinary appends the keys, so that a restart does not forget who has been
// redirected. Whoever reads them can make passes.
func (n *Redirector) AppendBinary(b []byte) ([]byte, error) { return n.keys.appendBinary(b), nil }

// UnmarshalBinary takes in what AppendBinary told, before the first request. If
// that is damaged it changes nothing.
func (n *Redirector) UnmarshalBinary(data []byte) error { return n.keys.unmarshalBinary(data) }
