package classify

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"unicode/utf8"
)

// Exemption matches requests that are never charged or delayed. All that is
// given must match, and something must be given.
type Exemption struct {
	Prefix netip.Prefix // the client's address lies in it; zero: any
	Path   string       // the path is this, or begins so if it ends in *; empty: any
}

func normaliseExemptions(given []Exemption) ([]Exemption, error) {
	var faults []error
	exempt := make([]Exemption, 0, len(given))
	for i, e := range given {
		switch {
		case e.Path == "" && e.Prefix == netip.Prefix{}:
			faults = append(faults, fmt.Errorf("exemption %d: it needs a prefix, a path or both", i+1))
		case e.Prefix != netip.Prefix{} && !e.Prefix.IsValid():
			faults = append(faults, fmt.Errorf("exemption %d: not a valid prefix", i+1))
		case e.Path != "" && e.Path[0] != '/':
			faults = append(faults, fmt.Errorf("exemption %d: path %q must begin with /", i+1, e.Path))
		case strings.Contains(strings.TrimSuffix(e.Path, "*"), "*"):
			faults = append(faults, fmt.Errorf("exemption %d: path %q: a * is allowed at the end only", i+1, e.Path))
		case e.Path != "" && !isPlainPath(e.Path):
			faults = append(faults, fmt.Errorf(
				"exemption %d: path %q: dot segments, %%, \\ and control characters never match, write it decoded and clean", i+1, e.Path))
		}
		if e.Prefix.IsValid() {
			e.Prefix = unmapPrefix(e.Prefix)
		}
		exempt = append(exempt, e)
	}
	return exempt, errors.Join(faults...)
}

// isExempt reports whether any exemption matches.
func (c *Classifier) isExempt(client netip.Addr, u *url.URL) bool {
	for i := range c.exempt {
		e := &c.exempt[i]
		if e.Prefix.IsValid() && !e.Prefix.Contains(client) {
			continue
		}
		if e.Path == "" || matchesPath(e.Path, u.Path) && isUnambiguous(u) {
			return true
		}
	}
	return false
}

func matchesPath(pattern, path string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(path, prefix)
	}
	return path == pattern
}

// isUnambiguous reports whether every backend understands the path as this
// package does. A path that one of them might resolve to another one never
// matches an exemption: who sends /static/../heavy.php, or an encoding of it,
// pays for heavy.php.
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
func hasEncodedSlash(raw string) bool {
	for i := 0; i+2 < len(raw); i++ {
		if raw[i] == '%' && raw[i+1] == '2' && raw[i+2]|0x20 == 'f' {
			return true
		}
	}
	return false
}
