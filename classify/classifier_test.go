package classify

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"tempomat/internal/testkit"
	"tempomat/limiter"
)

const firefox115 = "Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0"

func usual() []Class {
	return []Class{
		{Name: "slash32", By: Slash32}, {Name: "slash24", By: Slash24},
		{Name: "slash16", By: Slash16}, {Name: "userAgent", By: UserAgent},
	}
}

func request(target string, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.RemoteAddr = loopback
	r.Header.Set("X-Forwarded-For", "198.51.100.1, 203.0.113.9")
	r.Header.Set("User-Agent", firefox115)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func TestClassify(t *testing.T) {
	c := New(Config{
		TrustedProxies: prefixes("127.0.0.1/32"),
		Classes: append(usual(),
			Class{Name: "apiKey", By: Header, Header: "x-api-key"},
			Class{Name: "path", By: PathShape}),
		Exempt: []Exemption{{Path: "/healthz"}},
	})
	var result Result
	c.Classify(request("/blog/12?page=3", "X-Api-Key", "secret"), &result)
	want := []limiter.Key{
		{Class: "slash32", ID: "203.0.113.9"},
		{Class: "slash24", ID: "203.0.113.0/24"},
		{Class: "slash16", ID: "203.0.0.0/16"},
		{Class: "userAgent", ID: "firefox linux"},
		{Class: "apiKey", ID: "2bb80d537b1da3e3"}, // printf secret | sha256sum
		{Class: "path", ID: "/blog/*?"},
	}
	testkit.Same(t, want, result.Keys(), "keys")
	if result.Client != netip.MustParseAddr("203.0.113.9") || !result.TrustedPeer || result.Exempt || result.Shape != "/blog/*?page" || NetworkOf(result.Client).String() != want[1].ID {
		t.Errorf("got %+v", result)
	}

	// The same Result is used again. It must keep no values of the old request, even those set by other packages.
	result.Standing, result.Evidence, result.Address, result.ClientsBehind, result.Person = 2, Cookie, "203.0.113.9", 3, 1
	result.Session, result.Face, result.Follows, result.Prefetch = false, 5, true, true
	result.Account, result.Pooled, result.Forged, result.replaced = true, true, true, []string{"slash32"}
	r := request("/", "X-Api-Key", "")
	r.RemoteAddr, r.Host = "[2001:db8:1:2::3]:9", ""
	r.Header.Del("User-Agent")
	c.Classify(r, &result)
	want = []limiter.Key{
		{Class: "slash32", ID: "2001:db8:1:2::/64"},
		{Class: "slash24", ID: "2001:db8:1::/56"},
		{Class: "slash16", ID: "2001:db8:1::/48"},
		{Class: "userAgent", ID: "-"},
		{Class: "path", ID: "/"},
	}
	testkit.Same(t, want, result.Keys(), "keys")
	if result.TrustedPeer || result.Standing != 0 || result.Person != 0 || result.Shape != "/" || NetworkOf(result.Client).String() != want[2].ID || result.keys[5] != (limiter.Key{}) {
		t.Errorf("got %+v", result)
	}
	var fresh Result
	if c.Classify(r, &fresh); !reflect.DeepEqual(result, fresh) {
		t.Errorf("got %+v; in memory that was not used before: %+v", result, fresh)
	}

	c.Classify(request("/healthz"), &result)
	if !result.Exempt || len(result.Keys()) != 0 || result.Shape != "/healthz" {
		t.Errorf("an exempt request gives %+v", result)
	}
}

// TestExemptionFollowsTrust: an exemption by address concerns the client, not the proxy in front of it.
func TestExemptionFollowsTrust(t *testing.T) {
	c := New(Config{
		TrustedProxies: prefixes("127.0.0.1/32"),
		Exempt:         []Exemption{{Prefix: netip.MustParsePrefix("127.0.0.0/8")}, {Prefix: netip.MustParsePrefix("10.0.0.0/8")}},
	})
	for _, test := range []struct {
		remote, forwarded string
		want              bool
	}{
		{loopback, "203.0.113.9", false},
		{loopback, "10.0.0.1", true},
		{loopback, "10.0.0.1, 203.0.113.9", false},
		{"203.0.113.9:1", "10.0.0.1", false},
	} {
		r := request("/", "X-Forwarded-For", test.forwarded)
		r.RemoteAddr = test.remote
		var result Result
		if c.Classify(r, &result); result.Exempt != test.want {
			t.Errorf("%s, forwarded for %s: exempt %v, want %v", test.remote, test.forwarded, result.Exempt, test.want)
		}
	}
}

func TestHeaderIDIsBounded(t *testing.T) {
	id := func(value string) string {
		return string(appendHeaderID(nil, "X-Key", http.Header{"X-Key": {value}}))
	}
	long := strings.Repeat("x", maxHeaderBytes)
	if id(long) != id(long+"y") {
		t.Error("bytes beyond the limit change the key")
	}
	if id(long) == id(long[1:]) || len(id("a")) != 16 {
		t.Errorf("IDs %q and %q, want two different IDs of 16 digits", id(long), id(long[1:]))
	}
}

// TestPrefetch: browsers have three ways to indicate that nobody is looking at the answer yet.
func TestPrefetch(t *testing.T) {
	c := New(Config{})
	for _, x := range []struct {
		name, value string
		want        bool
	}{
		{"Sec-Purpose", "prefetch", true}, {"Sec-Purpose", "prefetch;prerender", true}, {"Purpose", "prefetch", true}, {"X-Moz", "prefetch", true},
		{"Sec-Purpose", "", false}, {"Sec-Purpose", "other", false}, {"Accept", "prefetch", false},
	} {
		var result Result
		if c.Classify(request("/", x.name, x.value), &result); result.Prefetch != x.want {
			t.Errorf("%s: %s: prefetch is %t", x.name, x.value, result.Prefetch)
		}
	}
}

func TestClassifyAllocatesOnce(t *testing.T) {
	c := New(Config{
		TrustedProxies: prefixes("127.0.0.1/32"),
		Classes:        append(usual(), Class{Name: "key", By: Header, Header: "X-Key"}, Class{Name: "path", By: PathShape}),
		Exempt:         []Exemption{{Path: "/static/*"}},
	})
	long := request("/"+strings.Repeat("abcdef-ghij/", 200)+"?"+strings.Repeat("name=value&", 200),
		"User-Agent", strings.Repeat("compatible; word bot ", 200), "X-Key", strings.Repeat("k", 9000),
		"X-Forwarded-For", strings.Repeat("unknown, ", 1000)+"127.0.0.1, 127.0.0.1")
	for name, r := range map[string]*http.Request{"usual": request("/static/../blog/12?page=3", "X-Key", "k"), "long": long} {
		var result Result
		want := map[string]float64{"usual": 1, "long": 2}[name] // one allocation is the error about a malformed address
		if got := testing.AllocsPerRun(100, func() { c.Classify(r, &result) }); got > want {
			t.Errorf("%s request: %v allocations, want %v", name, got, want)
		}
		for _, c := range everyKind() {
			if got := testing.AllocsPerRun(100, func() { c.Classify(r, &result) }); got > want {
				t.Errorf("%s request, %s: %v allocations, want %v", name, c.classes[0].Name, got, want)
			}
		}
	}
}

// slowest returns the classes that take the longest to classify.
func slowest() []Class {
	return append(usual(), Class{Name: "asn", By: "asn"}, Class{Name: "host", By: "host"}, Class{Name: "key", By: Header, Header: "X-Key"})
}

func BenchmarkClassify(b *testing.B) {
	const chrome131 = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36"
	c := New(Config{TrustedProxies: prefixes("127.0.0.1/32", "::1/128"), Classes: usual(), Exempt: []Exemption{{Path: "/healthz"}}})
	for _, bench := range []struct {
		name string
		r    *http.Request
	}{
		{"v4", request("/blog/2024/my-post?page=3", "User-Agent", chrome131)},
		{"v6", request("/blog/2024/my-post?page=3", "User-Agent", chrome131, "X-Forwarded-For", "2001:db8:1:2:3:4:5:6")},
		{"curl", request("/", "User-Agent", "curl/8.5.0")},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			var result Result
			for b.Loop() {
				c.Classify(bench.r, &result)
			}
		})
	}
	all := New(Config{
		TrustedProxies: prefixes("127.0.0.1/32", "::1/128"), Classes: slowest(), Exempt: []Exemption{{Path: "/healthz"}},
		Databases: map[string]Database{"asn": oneDatabase("AS64496")},
	})
	b.Run("all", func(b *testing.B) {
		b.ReportAllocs()
		r := request("/blog/2024/my-post?page=3", "User-Agent", chrome131, "X-Key", "0123456789abcdef")
		var result Result
		for b.Loop() {
			all.Classify(r, &result)
		}
	})
}

// TestEvidence: each kind of evidence has its name. Evidence proves a person if a client can't have it with a single
// request, and if the client doesn't falsely claim to be a robot.
func TestEvidence(t *testing.T) {
	for e, want := range map[Evidence]struct {
		text   string
		proves bool
	}{
		0:               {"", false},
		Cookie:          {"cookie", true},
		Parts:           {"parts", true},
		Attested:        {"attested", true},
		Verified:        {"verified", false},
		Forged:          {"forged", false},
		Cookie | Forged: {"cookie,forged", false},
		Cookie | Parts:  {"cookie,parts", true},
	} {
		if got := e.String(); got != want.text || e.Proves() != want.proves {
			t.Errorf("got %q, proves %t; want %q, %t", got, e.Proves(), want.text, want.proves)
		}
	}
}

// TestIdentity: the address of a session and the pool of an unverified name differ from the networks.
func TestIdentity(t *testing.T) {
	name, pool := limiter.Key{Class: "robot", ID: "seekerbot"}, limiter.Key{Class: "robot", ID: "(others)"}
	a, b, c := limiter.Key{Class: "a", ID: "1"}, limiter.Key{Class: "b", ID: "2"}, limiter.Key{Class: "c", ID: "3"}
	of := func(session, pooled bool, keys ...limiter.Key) (r Result) {
		r.Session, r.Pooled, r.n = session, pooled, copy(r.keys[:], keys)
		return r
	}
	for name, x := range map[string]struct {
		of             Result
		client, within limiter.Key
		others         int
	}{
		"nobody":                                {of: of(false, false)},
		"an address":                            {of(false, false, a, b, c), a, limiter.Key{}, 2},
		"a session":                             {of(true, false, a, b, c), a, b, 1},
		"a made name":                           {of(false, true, name, pool, c), name, pool, 1},
		"a name that has no account of its own": {of(false, true, pool, b, c), pool, limiter.Key{}, 2},
		"by itself":                             {of(true, false, a), a, limiter.Key{}, 0},
	} {
		client, within, others := x.of.Identity()
		if client != x.client || within != x.within || len(others) != x.others || len(others) > 0 && others[len(others)-1] != x.of.Keys()[x.of.n-1] {
			t.Errorf("%s: %v within %v and %v", name, client, within, others)
		}
	}
}

// TestHopsByHand: a list is read from its right end, up to a limit.
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
		"white space":                 {[]string{"\tab\t, \tcd \t"}, 99, []string{"cd", "ab"}},
		"a part of an element":        {[]string{"ab,cd,ef"}, 4, []string{"ef"}},
		"empty lines cost, too":       {[]string{"ab", "", "", "", ""}, 3, nil},
	} {
		h := hops{lines: c.lines, left: c.left}
		var got []string
		for e, ok := h.next(); ok; e, ok = h.next() {
			got = append(got, e)
		}
		testkit.Same(t, c.want, got, "%s", name)
	}
	for text, want := range map[string]bool{`\"`: true, `\\"`: false, `\\\"`: true, `a"`: false, `"`: false} {
		testkit.Same(t, want, escaped(text, len(text)-1), "the quote in %s is escaped", text)
	}
}

// TestAsManyKeysAsThereAre reuses a Result with the largest number of classes.
func TestAsManyKeysAsThereAre(t *testing.T) {
	classes := append(usual(),
		Class{Name: "plain", By: Address}, Class{Name: "mapped", By: MappedAddress}, Class{Name: "whole", By: UserAgentHeader}, Class{Name: "path", By: PathShape})
	c := New(Config{TrustedProxies: prefixes("127.0.0.1/32"), Classes: classes})
	var r Result
	for range 2 {
		if c.Classify(request("/a"), &r); len(r.Keys()) != limiter.MaxKeys {
			t.Fatalf("%v", r.Keys())
		}
	}
	if got := r.Keys()[4:7]; got[0].ID != "203.0.113.9" || got[1].ID != "::ffff:203.0.113.9" || got[2].ID != firefox115 {
		t.Errorf("%v", got)
	}
	r.Session, r.Account, r.Pooled = true, true, true
	r.Keep(func(class string) bool { return class != "plain" })
	if len(r.Keys()) != 7 || r.Keys()[4].Class != "mapped" || r.keys[7] != (limiter.Key{}) || !r.Session || !r.Account || !r.Pooled {
		t.Errorf("without one class: %+v", r)
	}
	r.Keep(func(class string) bool { return class == "path" })
	if len(r.Keys()) != 1 || r.Keys()[0].Class != "path" || r.Session || r.Account || r.Pooled {
		t.Errorf("without the first class: %+v", r)
	}
	r.Prepend(limiter.Key{Class: "session"})
	if len(r.Keys()) != 2 || r.Keys()[0].Class != "session" {
		t.Errorf("%v", r.Keys())
	}
	for len(r.Keys()) < limiter.MaxKeys {
		r.Prepend(limiter.Key{Class: "more"})
	}
	if r.Prepend(limiter.Key{Class: "too many"}) || len(r.Keys()) != limiter.MaxKeys || r.Keys()[0].Class != "more" {
		t.Errorf("the Result has room for one key too many: %v", r.Keys())
	}
	empty := request("/")
	empty.Header["X"] = []string{}
	testkit.Same(t, nil, appendHeaderID(nil, "X", empty.Header), "the ID of a header without a line")
}

// TestKeyOf checks what an administrator may write as a key.
func TestKeyOf(t *testing.T) {
	c := New(Config{Classes: append(usual(), Class{Name: "net", By: Slash24})})
	for _, x := range []struct{ class, id, want, fault string }{
		{"slash32", "192.0.2.7", "192.0.2.7", ""},
		{"slash32", "[2001:db8::1]", "2001:db8::/64", ""},
		{"slash32", "::ffff:192.0.2.7", "192.0.2.7", ""},
		{"slash32", "192.0.2.7/32", "192.0.2.7", ""},
		{"slash24", "192.0.2.7", "192.0.2.0/24", ""},
		{"slash24", "192.0.2.7/24", "192.0.2.0/24", ""},
		{"net", "192.0.2.7", "192.0.2.0/24", ""},
		{"slash16", "192.0.2.0/16", "192.0.0.0/16", ""},
		{"slash16", "192.0.2.0/24", "", "class slash16 has no key as wide as 192.0.2.0/24; the key of 192.0.2.0 is 192.0.0.0/16"},
		{"slash24", "example.org", "", `"example.org" is neither an address nor a network`},
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
