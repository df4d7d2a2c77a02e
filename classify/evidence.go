package classify

import (
	"net/http"
	"strings"
)

// Evidence is what speaks for, or against, a client being a person's browser.
type Evidence uint8

// The kinds of evidence.
const (
	Cookie        Evidence = 1 << iota // it brought back a cookie that the site gave it
	Parts                              // it loads the style sheets and images of its pages
	Tenure                             // it has been coming for hours
	Attested                           // the backend, or the configuration, vouches for it
	Contradiction                      // its headers are not those of the browser it says it is
)

// String is the kinds, parted by commas; empty if there are none.
func (e Evidence) String() string {
	var names []string
	for i, name := range []string{"cookie", "parts", "tenure", "attested", "contradiction"} {
		if e&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// Proves tells whether there is any that a client of a single request could not have.
func (e Evidence) Proves() bool { return e&(Cookie|Parts|Tenure|Attested) != 0 }

// standing is the product of what the evidence is worth.
func (e Evidence) standing(attested float64) float64 {
	x := 1.0
	for _, worth := range []struct {
		kind  Evidence
		times float64
	}{{Cookie, 2}, {Parts, 2}, {Tenure, 2}, {Attested, attested}, {Contradiction, 0.5}} {
		if e&worth.kind != 0 {
			x *= worth.times
		}
	}
	return max(leastStanding, min(x, mostStanding))
}

// What a client's share is multiplied by at least, and at most.
const (
	leastStanding = 0.5
	mostStanding  = 8.0
)

// contradicts tells whether a request's headers are not those of the browser
// that its User-Agent names. All of today's send Accept, Accept-Language and
// Accept-Encoding, and none HTTP/1.0. As proxies on the way may take one of them
// out, it takes three faults; and as it is cheap to send them, they prove nothing.
func contradicts(r *http.Request) bool {
	agent := r.Header["User-Agent"]
	if len(agent) == 0 || !strings.HasPrefix(agent[0], "Mozilla/5.0 (") || strings.Contains(agent[0], "compatible;") {
		return false // it does not say that it is one
	}
	faults := 0
	for _, name := range [...]string{"Accept", "Accept-Language", "Accept-Encoding"} {
		if len(r.Header[name]) == 0 {
			faults++
		}
	}
	if r.ProtoMajor == 1 && r.ProtoMinor == 0 {
		faults++
	}
	return faults >= 3
}

// isPart tells whether a request is for a part of a page: a style sheet, a
// script, an image, a font. A part that another site's page asks for is none of
// ours. Who says nothing about that is believed: without the pages of this
// site before it, it earns nothing.
func isPart(r *http.Request) bool {
	if r.Method != http.MethodGet {
		return false
	}
	if site := r.Header["Sec-Fetch-Site"]; len(site) > 0 && site[0] != "same-origin" && site[0] != "same-site" {
		return false
	}
	if from := r.Header["Referer"]; len(from) > 0 && !isOf(from[0], r.Host) {
		return false
	}
	if dest := r.Header["Sec-Fetch-Dest"]; len(dest) > 0 {
		switch dest[0] {
		case "style", "script", "image", "font":
			return true
		}
		return false
	}
	return hasPartName(r.URL.Path)
}

// isOf tells whether a URL is of that host.
func isOf(url, host string) bool {
	_, rest, ok := strings.Cut(url, "://")
	if !ok {
		return false
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return strings.EqualFold(rest, host)
}

// hasPartName tells parts by their paths' ends.
func hasPartName(path string) bool {
	dot := strings.LastIndexByte(path, '.')
	if dot < 0 {
		return false
	}
	switch path[dot+1:] {
	case "css", "js", "mjs", "png", "jpg", "jpeg", "gif", "webp", "avif", "svg", "ico", "woff", "woff2", "ttf":
		return true
	}
	return false
}

// isConditional tells whether a client has what it asks for already. A crawler
// that keeps nothing cannot.
func isConditional(r *http.Request) bool {
	return len(r.Header["If-None-Match"]) > 0 || len(r.Header["If-Modified-Since"]) > 0
}

// isPage tells whether an answer is a page.
func isPage(status int, h http.Header) bool {
	kind := h["Content-Type"]
	return status == http.StatusOK && len(kind) > 0 && strings.HasPrefix(kind[0], "text/html")
}
