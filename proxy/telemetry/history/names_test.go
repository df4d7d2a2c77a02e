package history

import (
	"net/netip"
	"strings"
	"testing"
)

// TestNames: what three networks ask for is written out, and nobody's secrets are.
func TestNames(t *testing.T) {
	const (
		page   = "/w/index.php?title=Main_Page&action=history"
		long   = "/a?b=c&d="
		shaped = "/the/shape"
	)
	three := []string{"192.0.2.1", "198.51.100.1", "2001:db8::1"}
	for _, c := range []struct {
		name    string
		target  string
		clients []string // that asked before
		want    string
	}{
		{"one network", page, []string{"192.0.2.1", "192.0.3.9", "192.0.200.7"}, "/the/shape?title=*&action=*"},
		{"three networks", page, three, page},
		{"a path alone", "/wiki/Berlin", three, "/wiki/Berlin"},
		{"a token that scanners open", "/reset?token=3f9a77c0de11", three, "/reset?token=*"},
		{"an address of mail", "/news?mail=a@example.org", three, "/news?mail=*"},
		{"an encoded one", "/news?mail=a%40example.org", three, "/news?mail=*"},
		{"a number of a telephone", "/call?to=00493012345678", three, "/call?to=*"},
		{"an identifier", "/x?id=6d1b2c3a-0b0c-4d4e-8f8f-aabbccddeeff", three, "/x?id=*"},
		{"a token in the path", "/reset/3f9a77c0de11", three, "/the/shape"},
		{"a token without a name", "/reset?3f9a77c0de11", nil, "/the/shape?*"},
		{"a long name", "/x?" + strings.Repeat("n", 40) + "=1", nil, "/the/shape?*"},
		{"many parameters", "/x?a=1&b=2&c=3&d=4&e=5", three, "/x?a=1&b=2&c=3&d=4&*"},
		{"semicolons and holes", "/x?a=1;;b=2&", three, "/x?a=1&b=2"},
		{"cut off", long + strings.Repeat("x", longestTarget-len(long)), three, "/a?b=c&*"},
		{"long", "/" + strings.Repeat("words/", 19) + "?" + strings.Repeat("long-name=value&", 3) + "d=1", three,
			"/" + strings.Repeat("words/", 19) + "?" + (strings.Repeat("long-name=value&", 3))[:43] + "*"},
		{"a path that is cut off", "/" + strings.Repeat("x", longestTarget-1), three, "/the/shape"},
		{"another form", "http://user:pass@host/a?b=1", three, "/the/shape?b=1"},
		{"a question mark alone", "/x?", three, "/x"},
	} {
		n := newNames()
		var got []byte
		for _, client := range append(c.clients, "192.0.2.1") {
			got = n.url(nil, c.target, len(c.target) >= longestTarget, shaped+"?names", n.network(netip.MustParseAddr(client)))
		}
		if string(got) != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestCrawlIsOneName: who asks for the history of many pages is one line, which says so.
func TestCrawlIsOneName(t *testing.T) {
	n := newNames()
	seen := map[string]int{}
	for i := range 3000 {
		client := netip.AddrFrom4([4]byte{byte(i % 7), 1, 1, 1})
		word := strings.Map(func(d rune) rune { return d + 'a' }, string([]rune{rune(i % 20), rune(i / 20 % 20), rune(i / 400)}))
		target := "/index.php?title=" + word + "&action=history"
		seen[string(n.appendURL(nil, target, false, "/index.php?title&action", n.network(client)))]++
	}
	if got := seen["/index.php?title=*&action=history"]; got < 2900 {
		t.Errorf("%v", seen)
	}
	if most := mostWitnessed; len(n.recent) > most || len(n.before) > most {
		t.Errorf("%d and %d texts have witnesses", len(n.recent), len(n.before))
	}
}
