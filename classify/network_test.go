package classify

import (
	"net/netip"
	"testing"
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
