package classify

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"tempomat/internal/testkit"
)

// TestSetContainsWhatAPrefixContains compares the set with netip, which is slower.
func TestSetContainsWhatAPrefixContains(t *testing.T) {
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
		set := NewPrefixSet(given)
		a, q := address.Draw(t, "a"), prefix.Draw(t, "q")
		contains, overlaps := false, false
		for _, p := range given {
			contains, overlaps = contains || p.Contains(a), overlaps || p.Overlaps(q)
		}
		if got := set.Contains(a); got != contains {
			t.Fatalf("%v contains %v: got %v, want %v", given, a, got, contains)
		}
		if got := set.Overlaps(q); got != overlaps {
			t.Fatalf("%v overlaps %v: got %v, want %v", given, q, got, overlaps)
		}
	})
}

// TestPrefixSetIgnoresInvalid: an invalid prefix doesn't invalidate the others.
func TestPrefixSetIgnoresInvalid(t *testing.T) {
	set := NewPrefixSet([]netip.Prefix{{}, netip.MustParsePrefix("10.0.0.0/8"), {}})
	if !set.Contains(netip.MustParseAddr("10.1.2.3")) || set.Contains(netip.MustParseAddr("11.0.0.0")) {
		t.Error("the set isn't 10.0.0.0/8")
	}
}

func TestPrefixesByHand(t *testing.T) {
	for text, want := range map[string]string{
		"::ffff:0:0/96": "0.0.0.0/0", "::ffff:192.0.2.0/120": "192.0.2.0/24", "::ffff:0:0/95": "::fffe:0:0/95", "192.0.2.7/24": "192.0.2.0/24",
		"2001:db8::1:7/112": "2001:db8::1:0/112",
	} {
		testkit.Same(t, want, Unmap(netip.MustParsePrefix(text)).String(), "%s becomes", text)
	}
}
