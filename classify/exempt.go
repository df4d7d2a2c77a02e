package classify

import (
	"crypto/subtle"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// Exemption matches requests that are never charged or delayed. All fields that are set must match, and at
// least one must be set.
//
// Clients can send any path, method, host and header. A path, method or host therefore matches only if no
// backend can interpret the request differently, and a header matches only with a value that can't be guessed.
type Exemption struct {
	Prefix  netip.Prefix // contains the client's address, as Unmap returns it; zero: any address
	Path    string       // the path, or its beginning followed by *; empty: any path
	Methods []string     // allowed methods; none: any method
	Host    string       // the host, or *. and a domain above it, in lower case and without a port; empty: any host
	Header  string       // the canonical name of a header whose value must be Secret; empty: no header is needed
	Secret  string       // at least MinSecret bytes
}

// MinSecret is the smallest length of an exemption's secret, in bytes.
const MinSecret = 16

// matchesAny reports whether any exemption matches.
func matchesAny(exempt []Exemption, client netip.Addr, r *http.Request) bool {
	for i := range exempt {
		if exempt[i].matches(client, r) {
			return true
		}
	}
	return false
}

func (e *Exemption) matches(client netip.Addr, r *http.Request) bool {
	switch {
	case e.Prefix.IsValid() && !e.Prefix.Contains(client):
	case e.Path != "" && !e.matchesURL(r.URL):
	case len(e.Methods) > 0 && !(slices.Contains(e.Methods, r.Method) && meansMethod(r.Header)):
	case e.Host != "" && !e.matchesHosts(r):
	case e.Header != "" && !e.knows(r.Header[e.Header]):
	default:
		return true
	}
	return false
}

// meansMethod reports whether no header overrides the method, which many frameworks support.
func meansMethod(h http.Header) bool {
	for name := range h {
		switch FoldedName(name) {
		case "X-Http-Method-Override", "X-Http-Method", "X-Method-Override":
			return false
		}
	}
	return true
}

// matchesHosts checks Host and X-Forwarded-Host, because a backend may use either.
func (e *Exemption) matchesHosts(r *http.Request) bool {
	for name, lines := range r.Header {
		if FoldedName(name) == "X-Forwarded-Host" && slices.ContainsFunc(lines, func(told string) bool { return !matchesHost(e.Host, told) }) {
			return false
		}
	}
	return matchesHost(e.Host, r.Host)
}

func matchesHost(pattern, host string) bool {
	host = withoutPort(host)
	if below, ok := strings.CutPrefix(pattern, "*"); ok { // below begins with a dot
		return len(host) > len(below) && strings.EqualFold(host[len(host)-len(below):], below)
	}
	return strings.EqualFold(host, pattern)
}

// knows reports whether the header was sent exactly once, with the secret as its value. The comparison always
// takes the same time, so it doesn't reveal which part of a guess is right.
func (e *Exemption) knows(lines []string) bool {
	return len(lines) == 1 && subtle.ConstantTimeCompare([]byte(lines[0]), []byte(e.Secret)) == 1
}

// matchesURL checks the decoded path and the path as it was sent, because backends use either. net/url keeps
// the latter in RawPath if it isn't the usual encoding.
func (e *Exemption) matchesURL(u *url.URL) bool {
	return matchesPath(e.Path, u.Path) && (u.RawPath == "" || matchesPath(e.Path, u.RawPath)) && isUnambiguous(u)
}

func matchesPath(pattern, path string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(path, prefix)
	}
	return path == pattern
}

// isUnambiguous reports whether every backend interprets the path like this package. A path that a backend
// might resolve differently never matches an exemption, so a client that sends /static/../heavy.php in any
// encoding pays for heavy.php.
func isUnambiguous(u *url.URL) bool {
	return u.Opaque == "" && IsPlainPath(u.Path) && !hasEncodedSlash(u.RawPath)
}

// IsPlainPath reports whether a decoded path can match an exemption. If it contains a %, a part of it was encoded
// twice. Some servers treat \ as a slash. Servers that cut off parameters read "..;x" as a dot segment, and
// invalid UTF-8 may be an overlong encoding of a dot.
func IsPlainPath(path string) bool {
	segment := 0 // where the current segment begins
	for i := 0; i <= len(path); i++ {
		if i == len(path) || path[i] == '/' {
			name, _, _ := strings.Cut(path[segment:i], ";")
			if name == "." || name == ".." {
				return false
			}
			segment = i + 1
			continue
		}
		if c := path[i]; c == '%' || c == '\\' || c < ' ' || c == 0x7f {
			return false
		}
	}
	return utf8.ValidString(path)
}

// hasEncodedSlash reports whether a path, as it was sent, contains an encoded slash.
func hasEncodedSlash(raw string) bool { return strings.Contains(strings.ToLower(raw), "%2f") }
