package classify

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

func TestNetwork(t *testing.T) {
	for _, test := range []struct {
		address string
		by      By
		want    string
	}{
		{"203.0.113.9", Slash32, "203.0.113.9"},
		{"203.0.113.9", Slash24, "203.0.113.0/24"},
		{"203.0.113.9", Slash16, "203.0.0.0/16"},
		{"2001:db8:1:2:3:4:5:6", Slash32, "2001:db8:1:2::/64"},
		{"2001:db8:1:2ff:3:4:5:6", Slash24, "2001:db8:1:200::/56"},
		{"2001:db8:1:2:3:4:5:6", Slash16, "2001:db8:1::/48"},
		{"::1", Slash32, "::/64"},
	} {
		if got := string(appendNetwork(nil, netip.MustParseAddr(test.address), test.by)); got != test.want {
			t.Errorf("%s by %s: %q, want %q", test.address, test.by, got, test.want)
		}
	}
}

func TestPrefixSet(t *testing.T) {
	set, err := newPrefixSet(prefixes("10.0.0.0/16", "10.0.0.0/8", "10.1.0.0/16", "192.0.2.7/24", "192.0.3.0/24", "::ffff:198.51.100.0/120", "2001:db8::/32", "10.0.0.0/8"))
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]bool{
		"9.255.255.255": false, "10.0.0.0": true, "10.1.2.3": true, "10.255.255.255": true, "11.0.0.0": false,
		"192.0.2.0": true, "192.0.2.255": true, "192.0.3.255": true, "192.0.4.0": false, "198.51.100.9": true, "198.51.101.0": false,
		"2001:db8::": true, "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff": true, "2001:db9::": false, "::": false, "0.0.0.0": false,
	} {
		if got := set.contains(netip.MustParseAddr(address)); got != want {
			t.Errorf("contains(%s) = %v, want %v", address, got, want)
		}
	}
	if (prefixSet{}).contains(netip.IPv4Unspecified()) {
		t.Error("an empty set contains an address")
	}
}

// The set is held to netip's own, slow answer.
func TestPrefixSetContainsWhatAPrefixContains(t *testing.T) {
	address := rapid.Custom(func(t *rapid.T) netip.Addr {
		few := rapid.SampledFrom([]byte{0, 1, 2, 128, 254, 255})
		if rapid.Bool().Draw(t, "v6") {
			return netip.AddrFrom16([16]byte{0x20, few.Draw(t, "b"), few.Draw(t, "c"), 15: few.Draw(t, "p")})
		}
		return netip.AddrFrom4([4]byte{few.Draw(t, "a"), few.Draw(t, "b"), few.Draw(t, "c"), few.Draw(t, "d")})
	})
	prefix := rapid.Custom(func(t *rapid.T) netip.Prefix {
		a := address.Draw(t, "address")
		return netip.PrefixFrom(a, rapid.IntRange(0, a.BitLen()).Draw(t, "bits"))
	})
	rapid.Check(t, func(t *rapid.T) {
		given := rapid.SliceOfN(prefix, 0, 6).Draw(t, "prefixes")
		set, err := newPrefixSet(given)
		if err != nil {
			t.Fatal(err)
		}
		a := address.Draw(t, "a")
		want := false
		for _, p := range given {
			want = want || p.Contains(a)
		}
		if got := set.contains(a); got != want {
			t.Fatalf("%v contains %v: %v, want %v", given, a, got, want)
		}
	})
}
