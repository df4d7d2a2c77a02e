package standing

import (
	"net/http"
	"strings"
)

// isPart reports whether a request is for a part of a page: a style sheet, a script, an image or a font.
// Requests from pages of other sites don't count. If no header says which page a request comes from, the
// request counts. That does no harm, because parts are worth nothing unless the client has loaded pages of
// this site before.
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

// wantsStyle reports whether Accept prefers style sheets. Browsers send such a header only when they request
// one.
func wantsStyle(accept []string) bool {
	return len(accept) > 0 && strings.HasPrefix(accept[0], "text/css")
}

// isOf reports whether a URL has the given host.
func isOf(url, host string) bool {
	_, rest, ok := strings.Cut(url, "://")
	if !ok {
		return false
	}
	if end := strings.IndexAny(rest, "/?#"); end != -1 {
		rest = rest[:end]
	}
	return strings.EqualFold(rest, host)
}

// hasPartName recognises parts by the ends of their paths, and by the names of the scripts with which
// MediaWiki and WordPress combine style sheets and scripts.
func hasPartName(path string) bool {
	dot := strings.LastIndexByte(path, '.')
	if dot == -1 {
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

// hasTag reports whether a client sends the entity tag of a copy that it has (RFC 9110, 13.1.2). "*" isn't a
// tag.
func hasTag(r *http.Request) bool {
	lines := r.Header["If-None-Match"]
	return len(lines) > 0 && strings.Contains(lines[0], `"`)
}

// isPartType reports whether an answer is a style sheet, a script, an image or a font, by the content type
// that the backend sends.
func isPartType(h Answer) bool {
	told := h.Get("Content-Type")
	for _, kind := range [...]string{
		"text/css", "text/javascript", "application/javascript", "application/x-javascript",
		"image/", "font/", "application/font", "application/x-font", "application/vnd.ms-fontobject",
	} {
		if strings.HasPrefix(told, kind) {
			return true
		}
	}
	return false
}

// isPage reports whether an answer is a page.
func isPage(status int, h Answer) bool {
	return status == http.StatusOK && strings.HasPrefix(h.Get("Content-Type"), "text/html")
}
