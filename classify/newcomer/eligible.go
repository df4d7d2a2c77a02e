package newcomer

import (
	"net/http"
	"strings"

	"tempomat/classify"
)

// isNavigation tells whether a request is a person's click on a link, as far as
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

// speaksNow tells whether the client speaks what browsers do. A proxy before this one may
// not, and says nothing of them by that: that is nginx's default before 1.30.
func speaksNow(r *http.Request, who *classify.Result) bool {
	return r.ProtoAtLeast(1, 1) || who.TrustedPeer
}

// telltales are header fields that no navigation has, or not one that can be
// repeated as it was:
//
//   - Sec-Purpose and its predecessors: nobody looks at that page yet.
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

// wantsPage tells whether HTML is asked for by its name, and neither data nor
// feeds beside it, as feed readers do that look for a feed's address in pages.
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

// isOr tells whether a header field has that value, or is not there: browsers
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

// isBrowser tells whether a client says that it is a browser, and nothing else
// beside that. Robots that tell who they are mostly give an address to ask at, and
// keep no cookies: a search engine that is sent in a circle takes the page for
// broken.
func isBrowser(agent []string) bool {
	return len(agent) == 1 && !strings.Contains(agent[0], "://") && classify.SaysBrowser(agent[0])
}
