package newcomer

import (
	"net/url"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

func TestLocation(t *testing.T) {
	for target, want := range map[string]bool{
		"/": true, "/a/b.html": true, "/?": true, "/?a=b;c&&": true, "/a%2Fb": true, "/%zz": true, "/a:b@c!$&'()*+,=": true,
		"/?//evil.example/": true, "/?http://evil.example/": true, "/http://evil.example/": true, "/a//b": true, "/%2f/evil.example": true,
		"/?../x": true, "/a.b/c..d": true, "/@evil.example": true, "/:80": true, "/a?b?c/./d": true,

		"": false, "*": false, "a": false, "//": false, "//evil.example": false, "///evil.example": false,
		`/\evil.example`: false, `\/evil.example`: false, `/a\b`: false, `/?a\b`: false,
		"http://site.example/": false, "https:/a": false, "javascript:alert(1)": false, "site.example:80": false,
		"/\t/evil.example": false, "/\r\nSet-Cookie: a=b": false, "/\n": false, "/a b": false, "/\x00": false, "/\x7f": false,
		"/caf\xc3\xa9": false, "/\xff": false, "/?\x80": false, "/a#b": false, "/#": false,
		"/.": false, "/..": false, "/../a": false, "/a/./b": false, "/a/..": false, "/%2e%2e/a": false, "/a/%2E": false,
		"/.git/config": false, "/.well-known/x": false, "/.//evil.example": false,
	} {
		testkit.Same(t, want, isLocation(target), "%q", target)
	}
	if !isLocation("/"+strings.Repeat("a", maxTarget-1)) || isLocation("/"+strings.Repeat("a", maxTarget)) {
		t.Error("a long target")
	}
}

// FuzzLocation checks that a redirect leads to the same URL for a parser that follows RFC 3986 and for one
// that is as lenient as browsers.
func FuzzLocation(f *testing.F) {
	for _, target := range []string{"/", "//a", "/\\a", "/\t/a", "/a?b", "/%2e/", "http://a/", "/a/..//b", "/#", "/a;b?c#d", "/{}|^`\"<>'"} {
		f.Add(target)
	}
	f.Fuzz(func(t *testing.T, target string) {
		if !isLocation(target) {
			return
		}
		lenient := strings.NewReplacer("\\", "/", "\t", "", "\n", "", "\r", "").Replace(strings.TrimSpace(target))
		if lenient != target || len(target) > 1 && lenient[1] == '/' || strings.ContainsAny(target, "\r\n #") {
			t.Fatalf("%q is another URL to a browser", target)
		}
		base, err := url.Parse("https://site.example" + target)
		if err != nil {
			return // a % that escapes nothing: browsers take it literally
		}
		to, err := base.Parse(locationOf(target))
		if err != nil {
			t.Fatalf("%q: %v", target, err)
		}
		if to.Scheme != "https" || to.Host != "site.example" || to.User != nil || to.Fragment != "" {
			t.Fatalf("%q leads to %s", target, to)
		}
		path, query, _ := strings.Cut(target, "?")
		if to.RawQuery != query {
			t.Fatalf("%q asks for %q", target, to.RawQuery)
		}
		if want, err := url.PathUnescape(path); err != nil || to.Path != want {
			t.Fatalf("%q leads to the path %q", target, to.Path)
		}
	})
}
