package subscriber

import (
	"net/netip"
	"testing"
)

func TestOf(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::", "fe80::1%eth0": "fe80::", "::1": "::",
	} {
		if got := Of(netip.MustParseAddr(text)); got.String() != want {
			t.Errorf("%s counts as %s, want %s", text, got, want)
		}
	}
	if got := Of(netip.Addr{}); got.IsValid() {
		t.Errorf("no address counts as %s", got)
	}
}
