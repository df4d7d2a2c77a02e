package classify

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tempomat/internal/testkit"
)

func exempting() *Classifier {
	return New(Config{Exempt: []Exemption{
		{Path: "/healthz"},
		{Path: "/static/*"},
		{Prefix: netip.MustParsePrefix("10.0.0.0/8")},
		{Prefix: Unmap(netip.MustParsePrefix("::ffff:192.0.2.0/120")), Path: "/status"},
	}})
}

func TestExempt(t *testing.T) {
	c := exempting()
	for _, test := range []struct {
		client, target string
		want           bool
	}{
		{"203.0.113.9", "/", false},
		{"203.0.113.9", "/healthz", true},
		{"203.0.113.9", "/healthz?x=1", true},
		{"203.0.113.9", "http://host/healthz", true},
		{"203.0.113.9", "/health%7a", false}, // another page for a backend that doesn't decode the path
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
		{"203.0.113.9", "/static/a%2Cb", true},
		{"203.0.113.9", "/%73tatic/a", false},
		{"203.0.113.9", "/static/../heavy.php", false},
		{"203.0.113.9", "/static/..", false},
		{"203.0.113.9", "/static/./a", false},
		{"203.0.113.9", "/static/%2e%2e/heavy.php", false},
		{"203.0.113.9", "/static/%2E./heavy.php", false},
		{"203.0.113.9", "/static/..%2fheavy.php", false},
		{"203.0.113.9", "/static%2F..%2fheavy.php", false},
		{"203.0.113.9", "/static/a%2Fb", false},
		{"203.0.113.9", "/static/a%3fb", true},
		{"203.0.113.9", "/static/%252e%252e/heavy.php", false},
		{"203.0.113.9", "/static/..%5cheavy.php", false},
		{"203.0.113.9", `/static/..\heavy.php`, false},
		{"203.0.113.9", "/static/..;x=1/heavy.php", false},
		{"203.0.113.9", "/static/%c0%ae%c0%ae/heavy.php", false},
		{"203.0.113.9", "/static/a%00b", false},
		{"203.0.113.9", "/static/a%7fb", false},
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
		testkit.Same(t, test.want, c.Exempts(netip.MustParseAddr(test.client), u), "%s %q: exempt", test.client, test.target)
	}
}

// TestExemptPathsStayBelow: however often a backend decodes an exempt path, and whichever slash it accepts, the path
// stays below the exempted one.
func TestExemptPathsStayBelow(t *testing.T) {
	c := exempting()
	client := netip.MustParseAddr("203.0.113.9")
	piece := rapid.SampledFrom([]string{
		"/", "..", ".", "%2e", "%2E", "%2f", "%5C", `\`, "%25", "2e", "2f", ";x", "a", "static", "%00", "%c0%ae",
	})
	rapid.Check(t, func(t *rapid.T) {
		u, err := url.ParseRequestURI("/static/" + strings.Join(rapid.SliceOfN(piece, 0, 10).Draw(t, "pieces"), ""))
		if err != nil || !c.Exempts(client, u) {
			return
		}
		path := u.EscapedPath()
		for range 4 {
			if decoded, err := url.PathUnescape(path); err == nil {
				path = decoded
			}
			for segment := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
				if name, _, _ := strings.Cut(segment, ";"); name == ".." || name == "." {
					t.Fatalf("%q is exempt, but becomes %q when decoded", u.EscapedPath(), path)
				}
			}
		}
	})
}

func TestExemptByWhatAClientChooses(t *testing.T) {
	const secret = "secret-of-16-byt" // as short as MinSecret
	c := New(Config{Exempt: []Exemption{
		{Methods: []string{"OPTIONS", "PURGE"}, Path: "/api/*"},
		{Host: "static.example.com"},
		{Host: "*.cdn.example.com", Methods: []string{"GET"}},
		{Header: "X-Monitor-Key", Secret: secret},
	}})
	for _, test := range []struct {
		name, method, target string
		header               []string
		want                 bool
	}{
		{name: "nothing", target: "/"},
		{name: "a method", method: "OPTIONS", target: "/api/1", want: true},
		{name: "the method, elsewhere", method: "OPTIONS", target: "/"},
		{name: "another method", method: "GET", target: "/api/1"},
		{name: "a method in lower case is another one", method: "options", target: "/api/1"},
		{name: "a method that means another one", method: "OPTIONS", target: "/api/1", header: []string{"X-HTTP-Method-Override", "POST"}},
		{name: "one that means it in the environment", method: "OPTIONS", target: "/api/1", header: []string{"X_HTTP_METHOD_Override", "POST"}},
		{name: "one with other characters", method: "OPTIONS", target: "/api/1", header: []string{"X.HTTP!Method", "POST"}},
		{name: "a name with an underscore", method: "OPTIONS", target: "/api/1", header: []string{"X_Method", "POST"}, want: true},
		{name: "a host", target: "http://static.example.com/", want: true},
		{name: "a host in capitals, with a port and a dot", target: "http://STATIC.example.com.:8080/", want: true},
		{name: "a host that ends so", target: "http://evilstatic.example.com/"},
		{name: "a host that begins so", target: "http://static.example.com.evil.net/"},
		{name: "a host that is said to be another one", target: "http://static.example.com/", header: []string{"X-Forwarded-Host", "www.example.com"}},
		{name: "a host that is said to be another one in the environment", target: "http://static.example.com/", header: []string{"X.Forwarded_Host", "www.example.com"}},
		{name: "a host that is said to be the same", target: "http://static.example.com/", header: []string{"X-Forwarded-Host", "static.example.com:443"}, want: true},
		{name: "below a host", target: "http://a.b.cdn.example.com/", want: true},
		{name: "the host itself", target: "http://cdn.example.com/"},
		{name: "no label", target: "http://.cdn.example.com/"},
		{name: "below a host, by another method", method: "POST", target: "http://a.cdn.example.com/"},
		{name: "the secret", target: "/", header: []string{"X-Monitor-Key", secret}, want: true},
		{name: "a part of it", target: "/", header: []string{"X-Monitor-Key", secret[1:]}},
		{name: "more than it", target: "/", header: []string{"X-Monitor-Key", secret + ","}},
		{name: "no secret", target: "/", header: []string{"X-Monitor-Key", ""}},
	} {
		r := request(test.target, test.header...)
		if test.method != "" {
			r.Method = test.method
		}
		var result Result
		if c.Classify(r, &result); result.Exempt != test.want {
			t.Errorf("%s: exempt is %v, want %v", test.name, result.Exempt, test.want)
		}
	}
	r := request("/")
	r.Header["X-Monitor-Key"] = []string{secret, secret}
	var result Result
	if c.Classify(r, &result); result.Exempt {
		t.Error("exempt with the secret in two lines, which a backend or a proxy may have joined")
	}
}
