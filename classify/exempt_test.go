package classify

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func exempting(t testing.TB) *Classifier {
	return mustNew(t, Config{Exempt: []Exemption{
		{Path: "/healthz"},
		{Path: "/static/*"},
		{Prefix: netip.MustParsePrefix("10.0.0.0/8")},
		{Prefix: netip.MustParsePrefix("::ffff:192.0.2.0/120"), Path: "/status"},
	}})
}

func TestExempt(t *testing.T) {
	c := exempting(t)
	for _, test := range []struct {
		client, target string
		want           bool
	}{
		{"203.0.113.9", "/", false},
		{"203.0.113.9", "/healthz", true},
		{"203.0.113.9", "/healthz?x=1", true},
		{"203.0.113.9", "http://host/healthz", true},
		{"203.0.113.9", "/health%7a", true},
		{"203.0.113.9", "/healthz/", false},
		{"203.0.113.9", "/healthzz", false},
		{"203.0.113.9", "//healthz", false},
		{"203.0.113.9", "/HEALTHZ", false},
		{"203.0.113.9", "/static", false},
		{"203.0.113.9", "/static/", true},
		{"203.0.113.9", "/static/a/b.css", true},
		{"203.0.113.9", "/static/with%20space", true},
		{"203.0.113.9", "/static/..a/b..", true},
		{"203.0.113.9", "/static/%C3%BC", true},
		{"203.0.113.9", "/static/../heavy.php", false},
		{"203.0.113.9", "/static/..", false},
		{"203.0.113.9", "/static/./a", false},
		{"203.0.113.9", "/static/%2e%2e/heavy.php", false},
		{"203.0.113.9", "/static/%2E./heavy.php", false},
		{"203.0.113.9", "/static/..%2fheavy.php", false},
		{"203.0.113.9", "/static%2F..%2fheavy.php", false},
		{"203.0.113.9", "/static/a%2Fb", false},
		{"203.0.113.9", "/static/%252e%252e/heavy.php", false},
		{"203.0.113.9", "/static/..%5cheavy.php", false},
		{"203.0.113.9", `/static/..\heavy.php`, false},
		{"203.0.113.9", "/static/..;x=1/heavy.php", false},
		{"203.0.113.9", "/static/%c0%ae%c0%ae/heavy.php", false},
		{"203.0.113.9", "/static/a%00b", false},
		{"203.0.113.9", "http:healthz", false},
		{"10.1.2.3", "/static/../heavy.php", true},
		{"192.0.2.9", "/status", true},
		{"192.0.2.9", "/other", false},
		{"203.0.113.9", "/status", false},
	} {
		u, err := url.ParseRequestURI(test.target)
		if err != nil {
			t.Errorf("%q: %v", test.target, err)
			continue
		}
		if got := c.isExempt(netip.MustParseAddr(test.client), u); got != test.want {
			t.Errorf("%s %q: exempt is %v, want %v", test.client, test.target, got, test.want)
		}
	}
}

// However often a backend decodes the path, and whichever slash it takes, an
// exempt path stays where the exemption is.
func TestExemptPathsStayBelow(t *testing.T) {
	c := exempting(t)
	client := netip.MustParseAddr("203.0.113.9")
	piece := rapid.SampledFrom([]string{
		"/", "..", ".", "%2e", "%2E", "%2f", "%5C", `\`, "%25", "2e", "2f", ";x", "a", "static", "%00", "%c0%ae",
	})
	rapid.Check(t, func(t *rapid.T) {
		u, err := url.ParseRequestURI("/static/" + strings.Join(rapid.SliceOfN(piece, 0, 10).Draw(t, "pieces"), ""))
		if err != nil || !c.isExempt(client, u) {
			return
		}
		path := u.EscapedPath()
		for range 4 {
			if decoded, err := url.PathUnescape(path); err == nil {
				path = decoded
			}
			for segment := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
				if name, _, _ := strings.Cut(segment, ";"); name == ".." || name == "." {
					t.Fatalf("%q is exempt, and %q after decoding", u.EscapedPath(), path)
				}
			}
		}
	})
}
