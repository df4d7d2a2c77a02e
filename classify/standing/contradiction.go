package standing

import (
	"net/http"
	"strings"
	"sync/atomic"

	"tempomat/classify"
)

// contradictions tells whether a request's headers are not those of the browser that
// its User-Agent names. It is evidence, and no proof: proxies on the way change
// headers, and who knows the rule sends them. So it costs rank only, never an answer.
//
// All of today's browsers send Accept, Accept-Language and Accept-Encoding, and none
// HTTP/1.0. As proxies on the way may take one of them out, it takes three faults.
//
// Chrome since 76, all that are made of it, and Firefox since 90 send Sec-Fetch-Mode
// with every request over HTTPS, and few crawlers that borrow their names do. The lack
// of it is a contradiction by itself, where
//   - the client came over TLS, as our own listener or a trusted proxy says;
//   - the version is one that surely sends it: Chrome from 80, Firefox from 90. Tor
//     Browser is the Firefox that it says it is; older ones with long-term support
//     (78, 68) say so, too;
//   - it is none that only looks like them: a robot that says so, an application's
//     view (Android's "; wv", Electron), relatives of Firefox that carry its number
//     and not its code (SeaMonkey, Pale Moon), browsers whose pages are fetched by a
//     server (Opera Mini, Puffin, UC Browser);
//   - it is an ordinary GET: WebSockets and downloads that are resumed have ways of
//     their own;
//   - such a header came through lately. A front that takes them all out makes nobody
//     a liar.
type contradictions struct {
	came atomic.Int64 // when Sec-Fetch-Mode last came over TLS, Unix seconds, within a minute
}

const (
	leastChrome  = 80
	leastFirefox = 90
	fetchSeen    = 3600 // seconds that one header tells that they come through
)

// has tells whether there is a contradiction. trusted is whether the peer is.
func (c *contradictions) has(now int64, r *http.Request, trusted bool) bool {
	lines := r.Header["User-Agent"]
	if len(lines) == 0 || !strings.HasPrefix(lines[0], "Mozilla/5.0 (") || strings.Contains(lines[0], "compatible;") {
		return false // it does not say that it is a browser
	}
	return lacksAll(r) || c.lacksFetchMode(now, r, lines[0], trusted)
}

// lacksAll tells whether a request has three of the four faults.
func lacksAll(r *http.Request) bool {
	right := 0
	if r.ProtoMajor != 1 || r.ProtoMinor != 0 {
		right++
	}
	for _, name := range [...]string{"Accept", "Accept-Language", "Accept-Encoding"} {
		if len(r.Header[name]) > 0 {
			right++
		}
		if right > 1 {
			return false
		}
	}
	return true
}

// lacksFetchMode tells whether a request lacks the header that its browser sends.
func (c *contradictions) lacksFetchMode(now int64, r *http.Request, agent string, trusted bool) bool {
	if !classify.Secure(r, trusted) {
		return false
	}
	came := c.came.Load()
	if len(r.Header["Sec-Fetch-Mode"]) > 0 {
		if now-came >= 60 {
			c.came.Store(now)
		}
		return false
	}
	return now-came < fetchSeen && r.Method == http.MethodGet &&
		len(r.Header["Upgrade"]) == 0 && len(r.Header["Range"]) == 0 && sendsFetchMode(agent)
}

// sendsFetchMode tells whether a browser surely sends Sec-Fetch-Mode over TLS.
func sendsFetchMode(agent string) bool {
	agent = agent[:min(len(agent), longestAgent)]
	if versionOf(agent, " Chrome/") < leastChrome && versionOf(agent, " Firefox/") < leastFirefox {
		return false
	}
	for _, other := range [...]string{
		"; wv)", "Electron/", "SeaMonkey/", "PaleMoon/", "Goanna/", "Opera Mini/", "Puffin/", "UCBrowser/", "://", "bot",
	} {
		if strings.Contains(agent, other) {
			return false
		}
	}
	return classify.SaysBrowser(agent)
}

// versionOf is the number behind a product's name; 0: there is none.
func versionOf(agent, product string) (n int) {
	_, version, _ := strings.Cut(agent, product)
	for i := 0; i < len(version) && '0' <= version[i] && version[i] <= '9' && n < 1000; i++ {
		n = n*10 + int(version[i]-'0')
	}
	return n
}
