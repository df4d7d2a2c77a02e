package newcomer

import "strings"

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

// isLocation tells whether a request target may be given back in a Location
// header, and names the same URL there: the scheme and the host are those that
// the client asked, whatever it says about them in the request.
//
// So it has to be a path of the same host for every reader of URLs, however
// lenient: no "//host", no "\" in the place of "/", no tabs and line ends, which
// browsers drop before they look for those, no absolute form. A # would become a
// fragment. Dot segments would be resolved to another path; that a segment begins
// with a dot at all is for "/.well-known/" and the like, where no person goes.
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
