package classify

import (
	"net/http"
	"strings"
)

// isPart tells whether a request is for a part of a page: a style sheet, a
// script, an image, a font. A part that another site's page asks for is none of
// ours. Who says nothing about that is believed: without the pages of this
// site before it, it earns nothing.
func isPart(r *http.Request) bool {
	if r.Method != http.MethodGet {
		return false
	}
	if dest := r.Header["Sec-Fetch-Dest"]; len(dest) > 0 {
		switch dest[0] {
		case "style", "script", "image", "font":
		default:
			return false
		}
	} else if !hasPartName(r.URL.Path) && !wantsStyle(r.Header["Accept"]) {
		return false
	}
	if site := r.Header["Sec-Fetch-Site"]; len(site) > 0 && site[0] != "same-origin" && site[0] != "same-site" {
		return false
	}
	from := r.Header["Referer"]
	return len(from) == 0 || isOf(from[0], r.Host)
}

// wantsStyle tells whether a style sheet is what is asked for first, as browsers do
// for no other kind.
func wantsStyle(accept []string) bool {
	return len(accept) > 0 && strings.HasPrefix(accept[0], "text/css")
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

// hasPartName tells parts by their paths' ends, and the programs that put style sheets
// and scripts together by their names: MediaWiki's and WordPress's.
func hasPartName(path string) bool {
	dot := strings.LastIndexByte(path, '.')
	if dot < 0 {
		return false
	}
	switch path[dot+1:] {
	case "css", "js", "mjs", "png", "jpg", "jpeg", "gif", "webp", "avif", "svg", "ico", "woff", "woff2", "ttf":
		return true
	case "php":
		switch path[strings.LastIndexByte(path, '/')+1:] {
		case "load.php", "load-styles.php", "load-scripts.php":
			return true
		}
	}
	return false
}

// isConditional tells whether a client has what it asks for already. A crawler
// that keeps nothing cannot.
func isConditional(r *http.Request) bool {
	return len(r.Header["If-None-Match"]) > 0 || len(r.Header["If-Modified-Since"]) > 0
}
