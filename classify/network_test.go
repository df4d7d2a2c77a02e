package classify

import (
	"net/netip"
	"strings"
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

// TestNetwork4: an IPv4 network is written as package netip writes it.
func TestNetwork4(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address")))
		for by, bits := range map[By]int{Slash32: 32, Slash24: 24, Slash16: 16} {
			want := netip.PrefixFrom(a, bits).Masked().String()
			if bits == 32 {
				want = a.String()
			}
			if got := string(appendNetwork([]byte("x"), a, by)); got != "x"+want {
				t.Fatalf("%s of %v: %q, want %q", by, a, got, want)
			}
		}
	})
}

// TestPlain4: what is read as a plain IPv4 address is one, as package netip reads it.
func TestPlain4(t *testing.T) {
	for text, want := range map[string]string{
		"203.0.113.9": "203.0.113.9", "203.0.113.9:80": "203.0.113.9", "0.0.0.0:_x": "0.0.0.0", "255.255.255.255": "255.255.255.255",
		"": "", "1.2.3": "", "1.2.3.": "", "1.2.3.4.": "", "1.2.3.4.5": "", "01.2.3.4": "", "1.2.3.256": "", "1.2.3.1000": "", "1.2.3.4:": "",
		"1.2.3.4:x": "", "1.2.3.4:123456": "", "1.2.3.4 ": "", "::1": "", "1..2.3": "", "1.2.3.4:80:1": "",
	} {
		if got, ok := parsePlain4(text); ok != (want != "") || ok && got.String() != want {
			t.Errorf("%q: %v, %t", text, got, ok)
		}
	}
	octet := rapid.StringMatching(`[0-9]{1,3}`)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(octet, 3, 5).Draw(t, "octets"), ".")
		want, err := netip.ParseAddr(text)
		for _, port := range []string{"", ":80"} {
			if got, ok := parsePlain4(text + port); ok != (err == nil) || ok && got != want {
				t.Fatalf("%q: %v, %t, want %v, %v", text+port, got, ok, want, err)
			}
		}
	})
}
