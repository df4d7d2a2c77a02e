package newcomer

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

func TestRecent(t *testing.T) {
	c := newRecent()
	one := netip.MustParseAddr("192.0.2.7")
	home := netip.MustParseAddr("2001:db8::1")
	if c.has(dawn, one) || c.comeBack(dawn, one) {
		t.Error("an empty memory knows an address")
	}
	c.add(dawn, one)
	c.add(dawn, home)
	for _, tc := range []struct {
		name   string
		after  time.Duration
		client string
		want   bool
	}{
		{"at once", 0, "192.0.2.7", true},
		{"a neighbour", 0, "192.0.2.8", false},
		{"another address of its /64", 0, "2001:db8::ffff:2", true},
		{"the next /64", 0, "2001:db8:0:1::1", false},
		{"shortly before the pause ends", pause - time.Second, "192.0.2.7", true},
		{"after the pause", pause, "192.0.2.7", false},
		{"the clock was set back a little", -time.Minute, "192.0.2.7", true},
		{"the clock was set back by a day", -24 * time.Hour, "192.0.2.7", false},
	} {
		testkit.Same(t, tc.want, c.has(dawn.Add(tc.after), netip.MustParseAddr(tc.client)), "%s", tc.name)
	}
	if !c.comeBack(dawn, one) || c.comeBack(dawn, one) {
		t.Error("it comes back once")
	}
	if !c.has(dawn, one) {
		t.Error("an address that came back is forgotten")
	}
	c.add(dawn.Add(pause), one)
	if !c.comeBack(dawn.Add(pause), one) {
		t.Error("coming back after the next redirect doesn't count")
	}
	if c.comeBack(dawn.Add(3*pause), home) {
		t.Error("coming back after the pause counts")
	}
}

func numbered(i int) netip.Addr {
	var raw [4]byte
	binary.BigEndian.PutUint32(raw[:], uint32(i))
	return netip.AddrFrom4(raw)
}

// TestRecentUnderAFlood: memory is limited, and an address that was just redirected isn't redirected again.
func TestRecentUnderAFlood(t *testing.T) {
	c := newRecent()
	for i := range 2 * mostRecent {
		if c.has(dawn, numbered(i)) {
			t.Fatalf("address %d was not redirected", i)
		}
		if c.add(dawn, numbered(i)); !c.has(dawn, numbered(max(0, i-1000))) {
			t.Fatalf("address %d may be redirected again and again", i)
		}
	}
	testkit.Same(t, mostRecent, c.of.Len(), "addresses remembered")
}
