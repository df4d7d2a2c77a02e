package classify

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// Exemption matches requests that are never charged or delayed. All that is
// given must match, and something must be given.
//
// A client chooses all of these except its address: any client can send any path, method, host
// and header. So they match only if such a request can mean nothing else to a backend, and a
// header only with a value that can't be guessed.
type Exemption struct {
	Prefix  netip.Prefix // the client's address lies in it; zero: any
	Path    string       // the path is this, or begins so if it ends in *; empty: any
	Methods []string     // the method is one of these; none: any
	Host    string       // the host is this, or lies below it if it begins with *.; in lower case, without a port; empty: any
	Header  string       // the request has a header of this name, with the value Secret; empty: any
	Secret  string       // at least MinSecret bytes
}

// MinSecret is how long the secret of an exemption must be, in bytes.
const MinSecret = 16

// matchesAll reports whether nothing is given.
func (e *Exemption) matchesAll() bool {
	return e.Path == "" && e.Prefix == netip.Prefix{} && len(e.Methods) == 0 && e.Host == "" && e.Header == ""
}

func normaliseExemptions(given []Exemption) ([]Exemption, error) {
	var faults []error
	exempt := make([]Exemption, 0, len(given))
	for i, e := range given {
		if err := e.check(); err != nil {
			faults = append(faults, fmt.Errorf("exemption %d: %w", i+1, err))
		}
		if e.Prefix.IsValid() {
			e.Prefix = unmap(e.Prefix)
		}
		e.Header = textproto.CanonicalMIMEHeaderKey(e.Header)
		exempt = append(exempt, e)
	}
	return exempt, errors.Join(faults...)
}

func (e *Exemption) check() error {
	switch {
	case e.matchesAll():
		return errors.New("it needs something to match: a prefix, a path, methods, a host or a header")
	case e.Prefix != netip.Prefix{} && !e.Prefix.IsValid():
		return errors.New("not a valid prefix")
	case e.Path != "" && e.Path[0] != '/':
		return fmt.Errorf("path %q must begin with /", e.Path)
	case strings.Contains(strings.TrimSuffix(e.Path, "*"), "*"):
		return fmt.Errorf("path %q: a * is allowed at the end only", e.Path)
	case e.Path != "" && !isPlainPath(e.Path):
		return fmt.Errorf("path %q: dot segments, %%, \\ and control characters never match, write it decoded and clean", e.Path)
	case slices.ContainsFunc(e.Methods, func(m string) bool { return !isToken(m) }):
		return fmt.Errorf("methods %q: one is none", e.Methods)
	case e.Host != "" && e.Host != hostOf(e.Host):
		return fmt.Errorf("host %q must be in lower case, without a port", e.Host)
	case e.Header != "" && !isToken(e.Header):
		return fmt.Errorf("%q is not the name of a header", e.Header)
	case e.Header != "" && len(e.Secret) < MinSecret:
		return fmt.Errorf("header %s: its secret must have at least %d bytes", e.Header, MinSecret)
	}
	return nil
}

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

// meansMethod reports whether no header asks the backend to take the method for another one,
// as frameworks do.
func meansMethod(h http.Header) bool {
	for name := range h {
		switch FoldedName(name) {
		case "X-Http-Method-Override", "X-Http-Method", "X-Method-Override":
			return false
		}
	}
	return true
}

// matchesHosts is about all that a backend may take for the host.
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

// knows reports whether a header was sent once, with the secret. How much of a guess is
// right does not show in the time that it takes.
func (e *Exemption) knows(lines []string) bool {
	return len(lines) == 1 && subtle.ConstantTimeCompare([]byte(lines[0]), []byte(e.Secret)) == 1
}

// matchesURL is about the path as it is decoded, and as it was sent: some backends go by
// the one and some by the other, and net/url keeps the latter where it is not the usual
// encoding of the former.
func (e *Exemption) matchesURL(u *url.URL) bool {
	return matchesPath(e.Path, u.Path) && (u.RawPath == "" || matchesPath(e.Path, u.RawPath)) && isUnambiguous(u)
}

func matchesPath(pattern, path string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(path, prefix)
	}
	return path == pattern
}

// isUnambiguous reports whether every backend understands the path as this package does. A path
// that one of them might resolve to another one never matches an exemption: a client that sends
// /static/../heavy.php, or an encoding of it, pays for heavy.php.
func isUnambiguous(u *url.URL) bool {
	return u.Opaque == "" && isPlainPath(u.Path) && !hasEncodedSlash(u.RawPath)
}

// isPlainPath is about the decoded path. What is still a % after decoding was
// encoded twice; \ is a slash to some servers; "..;x" is a dot segment to those
// that cut parameters off; invalid UTF-8 may be an overlong dot.
func isPlainPath(path string) bool {
	segment := 0 // where the current one begins
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

// hasEncodedSlash is about the path as it was sent, which net/url keeps where
// it differs from the usual encoding of the decoded one.
func hasEncodedSlash(raw string) bool { return strings.Contains(strings.ToLower(raw), "%2f") }
