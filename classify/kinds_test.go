package classify

import (
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// oneDatabase gives the same key to all addresses but one.
type oneDatabase string

func (d oneDatabase) ID(a netip.Addr) string {
	if a == netip.AddrFrom4([4]byte{192, 0, 2, 1}) {
		return ""
	}
	return string(d)
}

// everyKind returns one classifier for each kind of class.
func everyKind() map[string]*Classifier {
	all := make(map[string]*Classifier)
	for _, k := range Kinds() {
		all[k.Name] = New(Config{
			TrustedProxies: prefixes("127.0.0.1/32"), Classes: []Class{{Name: k.Name, By: By(k.Name)}},
			Databases: map[string]Database{"asn": oneDatabase("AS64496"), "country": oneDatabase("NZ")},
		})
	}
	return all
}

// TestEveryKind: each row of the table is a class that has a key.
func TestEveryKind(t *testing.T) {
	want := map[string]string{
		"slash32": "203.0.113.9", "slash24": "203.0.113.0/24", "slash16": "203.0.0.0/16", "userAgent": "firefox linux",
		"asn": "AS64496", "country": "NZ", "host": "example.com",
	}
	for name, c := range everyKind() {
		var result Result
		c.Classify(request("/"), &result)
		keys := result.Keys()
		if len(keys) != 1 || keys[0] != (limiter.Key{Class: name, ID: want[name]}) {
			t.Errorf("%s: keys %v, want %q", name, keys, want[name])
		}
	}
}

// TestKeysAreBounded: whatever a client sends, its keys are of limited length and safe to display.
func TestKeysAreBounded(t *testing.T) {
	all := everyKind()
	rapid.Check(t, func(t *rapid.T) {
		r := request("/")
		r.Method, r.Host = rapid.String().Draw(t, "method"), rapid.String().Draw(t, "host")
		r.Header = http.Header{"User-Agent": {rapid.String().Draw(t, "agent")}, "X-Forwarded-For": {rapid.String().Draw(t, "address")}}
		for name, c := range all {
			var result Result
			c.Classify(r, &result)
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
		testkit.Same(t, want, string(appendHost(nil, host)), "%q", host)
	}
	got := string(appendHost([]byte("x"), long))
	if len(got) != 1+maxID || !strings.HasPrefix(got, "x"+long[:40]) || got == string(appendHost([]byte("x"), long+"x")) {
		t.Errorf("a long host: %q", got)
	}
	if exact := strings.Repeat("a", maxID); string(appendHost(nil, exact)) != exact {
		t.Error("a key that just fits is not kept")
	}
}

// TestWithoutAnEntry: an address that isn't in the database gets no key, nor does any address without a database.
// Otherwise, all such addresses would share one key.
func TestWithoutAnEntry(t *testing.T) {
	r := request("/", "X-Forwarded-For", "192.0.2.1")
	for _, databases := range []map[string]Database{nil, {"asn": oneDatabase("AS64496")}} {
		c := New(Config{TrustedProxies: prefixes("127.0.0.1/32"), Classes: []Class{{Name: "asn", By: "asn"}}, Databases: databases})
		var result Result
		if c.Classify(r, &result); len(result.Keys()) != 0 {
			t.Errorf("keys %v", result.Keys())
		}
		testkit.Same(t, 0, len(c.NetworkKeys(netip.MustParseAddr("192.0.2.1"))), "the number of the address's keys")
	}
}

// TestNetworkKeysOfDatabases: keys that depend only on an address are known without a request.
func TestNetworkKeysOfDatabases(t *testing.T) {
	c := New(Config{
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

// TestKinds: the configuration accepts each name, and each row is complete.
func TestKinds(t *testing.T) {
	sound := regexp.MustCompile(`^[a-z][A-Za-z0-9]{0,31}$`)
	seen := make(map[string]bool)
	if len(Kinds()) == 0 {
		t.Error("there are no classes")
	}
	for i, k := range Kinds() {
		switch {
		case !sound.MatchString(k.Name), seen[k.Name]:
			t.Errorf("%q is not a valid, unique name", k.Name)
		case k.Usual != (k.Share > 0), k.Usual != (k.Burst > 0):
			t.Errorf("%s: share %g and burst %s; want both in a usual class, none in another", k.Name, k.Share, k.Burst)
		case k.Share > 1, k.Workers < 0, k.Workers > 1, (k.Usual && k.Address) != (k.Workers > 0):
			t.Errorf("%s: share %g and workers %g, want each from 0 to 1, and workers only in a usual class of addresses", k.Name, k.Share, k.Workers)
		case (i == 0) != (k.Whose == OfClient):
			t.Errorf("%s: the first class, and only this one, must be that of the client", k.Name)
		case k.Database != "" && !k.Address:
			t.Errorf("%s: a database needs a class of addresses", k.Name)
		}
		seen[k.Name] = true
		if found, ok := KindOf(k.Name); !ok || found != k {
			t.Errorf("%s is not found by its name", k.Name)
		}
	}
	if _, ok := KindOf("session"); ok {
		t.Error("an unknown name is found")
	}
}
