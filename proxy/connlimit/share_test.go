package connlimit

import (
	"net/netip"
	"testing"

	"tempomat/internal/testkit"
)

// TestShare: a few clients that take as much as they can leave some for others. Many clients with a small part
// each can take everything. No entry stays of clients that gave everything back.
func TestShare(t *testing.T) {
	const most = 1024
	s := NewShare(most)
	ipv4 := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}) }
	takeAll := func(client int) (n int) {
		for {
			ok, full := s.Take(ipv4(client), 1)
			if !ok {
				testkit.Same(t, n == 0, full, "client %d with %d is told that others have all", client, n)
				return n
			}
			n++
		}
	}
	had := map[int]int{}
	for client := range 17 {
		had[client] = takeAll(client)
	}
	testkit.Same(t, most/OnePart, had[0], "the first client has")
	if had[16] < most/100 {
		t.Errorf("one more gets %d", had[16])
	}
	for client, n := range had {
		s.GiveBack(ipv4(client), n)
	}
	if s.Held() != 0 || len(s.of) != 0 {
		t.Errorf("%d of %d clients are left", s.Held(), len(s.of))
	}
	for i := range most {
		if ok, _ := s.Take(ipv4(i), 1); !ok {
			t.Fatalf("of %d clients with one each %d have it", most, i)
		}
	}
	if ok, full := s.Take(ipv4(most), 1); ok || !full {
		t.Error("there is one too many")
	}
	s.Bound(2 * most)
	one, other := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	if ok, _ := s.Take(one, most/OnePart); !ok {
		t.Error("there is no room where there is more")
	}
	if ok, full := s.Take(other, 1); ok || full {
		t.Error("an IPv6 client has two shares")
	}
}
