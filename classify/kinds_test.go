package classify

import (
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tempomat/limiter"
)

// oneDatabase has the same key for all addresses but one.
type oneDatabase string

func (d oneDatabase) ID(a netip.Addr) string {
	if a == netip.AddrFrom4([4]byte{192, 0, 2, 1}) {
		return ""
	}
	return string(d)
}

// everyKind is a classifier for each kind that there is.
func everyKind(t testing.TB) map[string]*Classifier {
	all := make(map[string]*Classifier)
	for _, k := range Kinds() {
		all[k.Name] = mustNew(t, Config{
			TrustedProxies: prefixes("127.0.0.1/32"), Classes: []Class{{Name: k.Name, By: By(k.Name)}},
			Databases: map[string]Database{"asn": oneDatabase("AS64496"), "country": oneDatabase("NZ")},
		})
	}
	return all
}

// TestEveryKind: a line in the table is a class that has a key.
func TestEveryKind(t *testing.T) {
	want := map[string]string{
		"slash32": "203.0.113.9", "slash24": "203.0.113.0/24", "slash16": "203.0.0.0/16", "userAgent": "firefox linux",
		"asn": "AS64496", "country": "NZ", "fingerprint": fingerprint(fields(chromeFields), nil), "host": "example.com",
	}
	for name, c := range everyKind(t) {
		var result Result
		c.ClassifySeen(request("/"), Seen{Fields: fields(chromeFields)}, &result)
		keys := result.Keys()
		if len(keys) != 1 || keys[0] != (limiter.Key{Class: name, ID: want[name]}) {
			t.Errorf("%s: keys %v, want %q", name, keys, want[name])
		}
	}
}

// Whatever a client sends, a key is bounded and harmless where it is shown.
func TestKeysAreBounded(t *testing.T) {
	all := everyKind(t)
	rapid.Check(t, func(t *rapid.T) {
		r := request("/")
		r.Method, r.Host = rapid.String().Draw(t, "method"), rapid.String().Draw(t, "host")
		r.Header = http.Header{"User-Agent": {rapid.String().Draw(t, "agent")}, "X-Forwarded-For": {rapid.String().Draw(t, "address")}}
		for name, c := range all {
			var result Result
			c.ClassifySeen(r, Seen{Fields: fieldList(rapid.SliceOf(rapid.String()).Draw(t, "fields"))}, &result)
			for _, k := range result.Keys() {
				if k.ID == "" || len(k.ID) > maxID || strings.ContainsFunc(k.ID, func(c rune) bool { return c < ' ' || c > '~' }) {
					t.Fatalf("%s: %q", name, k.ID)
				}
			}
		}
	})
}

func TestHostID(t *testing.T) {
	long := strings.Repeat("a", 60) + ".example.com"
	for host, want := range map[string]string{
		"": "", "Example.COM.": "example.com", "example.com:8080": "example.com", "[2001:DB8::1]:80": "[2001:db8::1]", "[::1]": "[::1]",
		"a b\x1b[31m": "a?b?[31m", "süß": "s????", ":80": "",
	} {
		if got := string(appendHost(nil, host)); got != want {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
	got := string(appendHost([]byte("x"), long))
	if len(got) != 1+maxID || !strings.HasPrefix(got, "x"+long[:40]) || got == string(appendHost([]byte("x"), long+"x")) {
		t.Errorf("a long host: %q", got)
	}
	if exact := strings.Repeat("a", maxID); string(appendHost(nil, exact)) != exact {
		t.Error("one that just fits is not kept")
	}
}

// An address that the database does not know, and a database that is not there, make no
// key: else all of these would share one.
func TestWithoutAnEntry(t *testing.T) {
	r := request("/", "X-Forwarded-For", "192.0.2.1")
	for _, databases := range []map[string]Database{nil, {"asn": oneDatabase("AS64496")}} {
		c := mustNew(t, Config{TrustedProxies: prefixes("127.0.0.1/32"), Classes: []Class{{Name: "asn", By: "asn"}}, Databases: databases})
		var result Result
		if c.Classify(r, &result); len(result.Keys()) != 0 {
			t.Errorf("keys %v", result.Keys())
		}
		if keys := c.NetworkKeys(netip.MustParseAddr("192.0.2.1")); len(keys) != 0 {
			t.Errorf("of the address: %v", keys)
		}
	}
}

// What follows from an address alone is told of it, without a request.
func TestNetworkKeysOfDatabases(t *testing.T) {
	c := mustNew(t, Config{
		Classes:   []Class{{Name: "slash32", By: Slash32}, {Name: "host", By: "host"}, {Name: "asn", By: "asn"}},
		Databases: map[string]Database{"asn": oneDatabase("AS64496")},
	})
	for _, a := range []string{"203.0.113.9", "::ffff:203.0.113.9", "::ffff:203.0.113.9%eth0"} {
		keys := c.NetworkKeys(netip.MustParseAddr(a))
		if len(keys) != 2 || keys[0].ID != "203.0.113.9" || keys[1] != (limiter.Key{Class: "asn", ID: "AS64496"}) {
			t.Errorf("%s: keys %v", a, keys)
		}
	}
}

// TestKinds: names are what the configuration takes for one, and of each row what it needs
// is there.
func TestKinds(t *testing.T) {
	sound := regexp.MustCompile(`^[a-z][A-Za-z0-9]{0,31}$`)
	seen := make(map[string]bool)
	if len(Kinds()) == 0 {
		t.Error("there are no classes")
	}
	for i, k := range Kinds() {
		switch {
		case !sound.MatchString(k.Name), seen[k.Name]:
			t.Errorf("%q is no name of its own", k.Name)
		case k.Groups == "":
			t.Errorf("%s: nobody is told what it groups by", k.Name)
		case k.Usual != (k.Share > 0), k.Usual != (k.Burst > 0):
			t.Errorf("%s: share %g and burst %s are those of a usual class, and of no other", k.Name, k.Share, k.Burst)
		case k.Share > 1, k.Workers < 0, k.Workers > 1:
			t.Errorf("%s: share %g or workers %g is no part", k.Name, k.Share, k.Workers)
		case (i == 0) != (k.Whose == OfClient):
			t.Errorf("%s: the first one is the client, and no other", k.Name)
		case k.Database != "" && !k.Address:
			t.Errorf("%s: databases are asked for addresses", k.Name)
		}
		seen[k.Name] = true
		if found, ok := KindOf(k.Name); !ok || found != k {
			t.Errorf("%s is not found by its name", k.Name)
		}
	}
	if _, ok := KindOf("session"); ok {
		t.Error("a name is found that is none")
	}
}
