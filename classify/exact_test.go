package classify

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"tempomat/limiter"
)

func TestParseAddress(t *testing.T) {
	zone := func(n int) string { return "fe80::1%" + strings.Repeat("z", n-len("fe80::1%")) }
	for text, want := range map[string]string{
		"::": "::", "": "", "1": "", `"`: "", `""`: "", `"::"`: "::", ":80": "", "192.0.2.1:": "", "192.0.2.1:80": "192.0.2.1",
		"192.0.2.1:_": "", "192.0.2.1:_a": "192.0.2.1", "[::1]": "::1", "[::1": "", "]": "", "[192.0.2.1]": "", "::ffff:192.0.2.1": "192.0.2.1",
		zone(maxAddressBytes): "fe80::1", zone(maxAddressBytes + 1): "",
	} {
		if a, ok := parseAddress(text); ok != (want != "") || ok && a.String() != want {
			t.Errorf("%q is %v, %t; want %q", text, a, ok, want)
		}
	}
	for _, element := range []string{"for=;for=192.0.2.1", "for=192.0.2.1;for=192.0.2.1", "for", "by=192.0.2.1"} {
		if a, ok := parseElement(element); ok {
			t.Errorf("%q names %v", element, a)
		}
	}
}

// TestHopsByHand: a list is read from its end, as far as it may be looked at.
func TestHopsByHand(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		left  int
		want  []string
	}{
		"as long as may be looked at": {[]string{"192.0.2.1"}, 9, []string{"192.0.2.1"}},
		"a byte longer":               {[]string{"192.0.2.1"}, 8, nil},
		"two lines":                   {[]string{"ab", "cd"}, 5, []string{"cd", "ab"}},
		"each line costs one more":    {[]string{"ab", "cd"}, 4, []string{"cd"}},
		"a comma at the beginning":    {[]string{",ab, ,cd"}, 99, []string{"cd", "ab"}},
	} {
		h := hops{lines: c.lines, left: c.left}
		var got []string
		for e, ok := h.next(); ok; e, ok = h.next() {
			got = append(got, e)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	for text, want := range map[string]bool{`\"`: true, `\\"`: false, `\\\"`: true, `a"`: false, `"`: false} {
		if escaped(text, len(text)-1) != want {
			t.Errorf("the quote of %s is escaped: %t", text, !want)
		}
	}
}

func TestMarks(t *testing.T) {
	for word, want := range map[string]bool{
		"bot": true, "xbot": true, "bo": false, "crawl": true, "acrawl": true, "craw": false, "spider": true, "aspider": true,
		"spide": false, "slurp": true, "scrap": true, "scra": false, "": false,
	} {
		if hasMark([]byte(word)) != want {
			t.Errorf("%q marks a robot: %t", word, !want)
		}
	}
}

// TestAsManyKeysAsThereAre: with as many classes as there may be, a Result is used again.
func TestAsManyKeysAsThereAre(t *testing.T) {
	classes := append(usual(),
		Class{Name: "plain", By: Address}, Class{Name: "mapped", By: MappedAddress}, Class{Name: "whole", By: UserAgentHeader}, Class{Name: "path", By: PathShape})
	c := mustNew(t, Config{TrustedProxies: prefixes("127.0.0.1/32"), Classes: classes})
	var r Result
	for range 2 {
		if c.Classify(request("/a"), &r); len(r.Keys()) != limiter.MaxKeys {
			t.Fatalf("%v", r.Keys())
		}
	}
	if got := r.Keys()[4:7]; got[0].ID != "203.0.113.9" || got[1].ID != "::ffff:203.0.113.9" || got[2].ID != firefox115 {
		t.Errorf("%v", got)
	}
	r.Session, r.Account, r.Pooled, r.Share = true, true, true, 2
	r.Keep(func(class string) bool { return class != "plain" })
	if len(r.Keys()) != 7 || r.Keys()[4].Class != "mapped" || r.keys[7] != (limiter.Key{}) || !r.Session || !r.Account || !r.Pooled || r.Share != 2 {
		t.Errorf("without one class: %+v", r)
	}
	r.Keep(func(class string) bool { return class == "path" })
	if len(r.Keys()) != 1 || r.Keys()[0].Class != "path" || r.Session || r.Account || r.Pooled || r.Share != 0 {
		t.Errorf("without the first class: %+v", r)
	}
	r.prepend(limiter.Key{Class: "session"})
	if len(r.Keys()) != 2 || r.Keys()[0].Class != "session" {
		t.Errorf("%v", r.Keys())
	}
	empty := request("/")
	empty.Header["X"] = []string{}
	if id := appendHeaderID(nil, "X", empty); id != nil {
		t.Errorf("a header without a line has the ID %q", id)
	}
}

// TestContradictionsByHand: what is counted, and for how long one header counts.
func TestContradictionsByHand(t *testing.T) {
	for name, c := range map[string]struct {
		major, minor int
		headers      []string
		want         bool
	}{
		"HTTP/1.0 and nothing":   {1, 0, nil, true},
		"HTTP/1.0 and one of it": {1, 0, []string{"Accept"}, true},
		"HTTP/1.0 and two of it": {1, 0, []string{"Accept", "Accept-Encoding"}, false},
		"HTTP/1.1 and nothing":   {1, 1, nil, true},
		"HTTP/1.1 and one of it": {1, 1, []string{"Accept-Language"}, false},
		"HTTP/2 and nothing":     {2, 0, nil, true},
		"HTTP/2 and one of it":   {2, 0, []string{"Accept"}, false},
	} {
		r := &http.Request{ProtoMajor: c.major, ProtoMinor: c.minor, Header: http.Header{}}
		for _, h := range c.headers {
			r.Header.Set(h, "x")
		}
		if lacksAll(r) != c.want {
			t.Errorf("%s: %t", name, !c.want)
		}
	}
	agent := fmt.Sprintf("Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/%d.0", leastFirefox)
	chrome := fmt.Sprintf("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0 Safari/537.36", leastChrome)
	older := fmt.Sprintf("Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/%d.0", leastFirefox-1)
	if !sendsFetchMode(agent) || !sendsFetchMode(chrome) || sendsFetchMode(older) {
		t.Error("the least versions send Sec-Fetch-Mode, and older ones may not")
	}
	if n := versionOf("a Chrome/1000999", " Chrome/"); n != 1000 {
		t.Errorf("a version of %d", n)
	}
	secure := httptest.NewRequest(http.MethodGet, "/", nil)
	secure.TLS = new(tls.ConnectionState)
	for after, want := range map[int64]bool{fetchSeen - 1: true, fetchSeen: false} {
		var c contradictions
		c.came.Store(1000)
		if c.lacksFetchMode(1000+after, secure, agent, false) != want {
			t.Errorf("%d s after one that had the header: %t", after, !want)
		}
	}
	secure.Header.Set("Sec-Fetch-Mode", "navigate")
	for after, want := range map[int64]int64{59: 1000, 60: 1060} {
		var c contradictions
		c.came.Store(1000)
		c.lacksFetchMode(1000+after, secure, agent, false)
		if c.came.Load() != want {
			t.Errorf("%d s after the last one, it is said to have come at %d, want %d", after, c.came.Load(), want)
		}
	}
}

func TestCookiesAreBounded(t *testing.T) {
	n := 0
	eachCookie([]string{strings.Repeat("a=0123456789abcdef; ", maxCookies+5)}, func(string, string) bool { n++; return true })
	if n != maxCookies {
		t.Errorf("%d cookies of one request are looked at, want %d", n, maxCookies)
	}
	for size, want := range map[int]bool{leastSecret - 1: false, leastSecret: true, mostSecret: true, mostSecret + 1: false} {
		if isSecret(strings.Repeat("x", size)) != want {
			t.Errorf("%d bytes can tell people apart: %t", size, !want)
		}
	}
}

func TestSecretsAreLongEnough(t *testing.T) {
	for n, ok := range map[int]bool{MinSecret - 1: false, MinSecret: true} {
		if _, err := New(Config{Exempt: []Exemption{{Header: "X-A", Secret: strings.Repeat("x", n)}}}); (err == nil) != ok {
			t.Errorf("a secret of %d bytes: %v", n, err)
		}
	}
	for raw, want := range map[string]bool{"%2f": true, "a%2F": true, "%2": false, "%2e": false, "": false} {
		if hasEncodedSlash(raw) != want {
			t.Errorf("%q has a slash: %t", raw, !want)
		}
	}
}

// TestHandedOut: the oldest cookie makes room, the oldest of its own address first.
func TestHandedOut(t *testing.T) {
	const step = 2 * handedRegion // values so far apart are in one set
	var h handedOut
	for i := range uint64(handedWays + 1) {
		h.put(handed{value: 1 + i*step, network: 5, to: uint32(i)})
	}
	for i := range uint64(handedWays + 1) {
		if _, ok := h.find(5, 1+i*step); ok != (i > 0) {
			t.Errorf("cookie %d of %d is there: %t", i, handedWays+1, ok)
		}
	}
	n := 0
	if h.each(func(handed) { n++ }); n != handedWays {
		t.Errorf("%d are told, want %d", n, handedWays)
	}
	var own handedOut
	own.put(handed{value: 1, network: 5, to: 7})
	for i := range uint64(handedAddress + 1) {
		own.put(handed{value: 1 + (i+1)*step, network: 5, to: 9})
	}
	for i := range uint64(handedAddress + 2) {
		if _, ok := own.find(5, 1+i*step); ok != (i != 1) {
			t.Errorf("cookie %d is there: %t", i, ok)
		}
	}
}

func TestHostsByHand(t *testing.T) {
	for host, want := range map[string]string{"AZaz09.-_": "azaz09.-_", "@[`{": "?[??", "[::1]:80": "[::1]", "ä": "??"} {
		if got := string(appendHost(nil, host)); got != want {
			t.Errorf("%q is %q, want %q", host, got, want)
		}
	}
}

// TestKeyOf: what an administrator may write for a key.
func TestKeyOf(t *testing.T) {
	c := mustNew(t, Config{Classes: append(usual(), Class{Name: "net", By: Slash24})})
	for _, x := range []struct{ class, id, want, fault string }{
		{"slash32", "192.0.2.7", "192.0.2.7", ""},
		{"slash32", "[2001:db8::1]", "2001:db8::/64", ""},
		{"slash32", "::ffff:192.0.2.7", "192.0.2.7", ""},
		{"slash32", "192.0.2.7/32", "192.0.2.7", ""},
		{"slash24", "192.0.2.7", "192.0.2.0/24", ""},
		{"slash24", "192.0.2.7/24", "192.0.2.0/24", ""},
		{"net", "192.0.2.7", "192.0.2.0/24", ""},
		{"slash16", "192.0.2.0/16", "192.0.0.0/16", ""},
		{"slash16", "192.0.2.0/24", "", "is as wide as no key of class slash16; that of 192.0.2.0 is 192.0.0.0/16"},
		{"slash24", "example.org", "", `"example.org" is no address, and no network`},
		{"userAgent", "firefox linux", "firefox linux", ""},
		{"unknown", "x", "x", ""},
	} {
		k, err := c.KeyOf(x.class, x.id)
		switch {
		case x.fault != "":
			if err == nil || !strings.Contains(err.Error(), x.fault) {
				t.Errorf("%s %s: %v, want %q", x.class, x.id, err, x.fault)
			}
		case err != nil || k != (limiter.Key{Class: x.class, ID: x.want}):
			t.Errorf("%s %s: %v, %v, want %s", x.class, x.id, k, err, x.want)
		}
	}
}

func TestMarkupByHand(t *testing.T) {
	if isTag([]byte("img"), "img") || !isTag([]byte("IMG "), "img") || isTag([]byte("image "), "img") {
		t.Error("a tag is a name and a blank")
	}
	var got []string
	eachCandidate(" , a.png 2x,, b.png", func(name string) bool { got = append(got, name); return true })
	if !slices.Equal(got, []string{"a.png", "b.png"}) {
		t.Errorf("%q", got)
	}
	for tag, want := range map[string][3]string{
		`alt="" src="x">`: {"alt", "", ` src="x">`}, `a='b'c>`: {"a", "b", "c>"}, `a = b>`: {"a", "b", ">"}, `a="b`: {}, `a>`: {"a", "", ">"}, `>`: {"", "", ">"},
	} {
		name, value, rest := cutAttribute([]byte(tag))
		if [3]string{name, value, string(rest)} != want {
			t.Errorf("%s is cut into %q, %q, %q, want %q", tag, name, value, rest, want)
		}
	}
	for size, want := range map[int]int{2048: 2048, 2049: 0} {
		if got := len(unescape([]byte(strings.Repeat("x", size)))); got != want {
			t.Errorf("of a value of %d bytes %d are kept, want %d", size, got, want)
		}
	}
	if len(trimBlanks([]byte(" \t\n"))) != 0 || string(trimBlanks([]byte("\r\fa "))) != "a " {
		t.Error("blanks are trimmed")
	}
}

// TestNamesHold: for how long names decide after they were read, and after one was met.
func TestNamesHold(t *testing.T) {
	for name, c := range map[string]struct {
		read, met, now int64
		may            bool
	}{
		"both held":    {10, 10, 10 + namesHold, false},
		"none read":    {0, 10, 1 + namesHold, true},
		"none met":     {10, 0, 1 + namesHold, true},
		"at the bound": {0, 10, namesHold, false},
		"met at it":    {10, 0, namesHold, false},
	} {
		n := names{read: c.read, met: c.met}
		if n.may(c.now, 1) != c.may {
			t.Errorf("%s: %t", name, !c.may)
		}
	}
}

// TestPagesByHand: as much of a page is read as may be, and as many names of it.
func TestPagesByHand(t *testing.T) {
	s, err := NewStanding([16]byte{1}, StandingConfig{})
	if err != nil {
		t.Fatal(err)
	}
	p := &Page{standing: s, base: url.URL{Scheme: "http", Host: "host", Path: "/a/"}}
	for range 3 {
		p.Write(make([]byte, pageBytes/2+1))
	}
	if len(p.body) != pageBytes {
		t.Errorf("%d bytes are kept, want %d", len(p.body), pageBytes)
	}
	p.body = nil
	for i := range pageNames + 10 {
		fmt.Fprintf(p, `<img src="%d.png">`, i)
	}
	if p.End(); len(s.names.now) != pageNames {
		t.Errorf("%d names of a page count, want %d", len(s.names.now), pageNames)
	}
	for name, want := range map[string]bool{"x.png": true, "http://other/x": true, "https://other/x": true, "ftp://other/x": false, "data:x": false, "%zz": false} {
		if _, ok := p.target(name); ok != want {
			t.Errorf("%s is a target: %t", name, !want)
		}
	}
	room := 2048 - len(s.key(nil, 'p')) - len("/?q")
	for more, want := range map[int]bool{0: true, 1: false} {
		if _, ok := s.hashOfTarget(&url.URL{Path: "/" + strings.Repeat("x", room+more), RawQuery: "q"}); ok != want {
			t.Errorf("a target %d bytes longer than there is room is one: %t", more, ok)
		}
	}
}

func TestShapesAtTheirBounds(t *testing.T) {
	name := strings.Repeat("n", maxName)
	for target, want := range map[string]string{
		strings.Repeat("/a/..", 3*maxSegments) + "/b": "/b",
		"/a?" + name:       "/a?" + name,
		"/a?" + name + "n": "/a?*",
	} {
		u, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		if got := ShapeOf(u); got != want {
			t.Errorf("%s has the shape %s, want %s", target, got, want)
		}
	}
	if got := string(appendNames(nil, "ab&cd", 5)); got != "ab&cd" {
		t.Errorf("%q, with room for all", got)
	}
	if got := string(appendNames(nil, "ab&cd", 4)); got != "ab" {
		t.Errorf("%q, with room for one", got)
	}
}
