package newcomer

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"
)

func TestRecent(t *testing.T) {
	c := newRecent(mostRecent)
	one := netip.MustParseAddr("192.0.2.7")
	home := netip.MustParseAddr("2001:db8::1")
	if c.has(dawn, one) || c.comeBack(dawn, one) {
		t.Error("an empty memory knows somebody")
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
		if got := c.has(dawn.Add(tc.after), netip.MustParseAddr(tc.client)); got != tc.want {
			t.Errorf("%s: %t, want %t", tc.name, got, tc.want)
		}
	}
	if !c.comeBack(dawn, one) || c.comeBack(dawn, one) {
		t.Error("it comes back once")
	}
	if !c.has(dawn, one) {
		t.Error("who came back is forgotten")
	}
	c.add(dawn.Add(pause), one)
	if !c.comeBack(dawn.Add(pause), one) {
		t.Error("it does not come back after the next redirect")
	}
	if c.comeBack(dawn.Add(3*pause), home) {
		t.Error("it comes back after the pause")
	}
}

func numbered(i int) netip.Addr {
	var raw [4]byte
	binary.BigEndian.PutUint32(raw[:], uint32(i))
	return netip.AddrFrom4(raw)
}

// TestRecentUnderAFlood checks that a full memory has for everybody, so that
// nobody is sent in a circle, and that it frees itself in time.
func TestRecentUnderAFlood(t *testing.T) {
	const most = 2000
	c := newRecent(most)
	for i := range 3 * most {
		if !c.has(dawn, numbered(i)) {
			c.add(dawn, numbered(i))
		}
		if !c.has(dawn, numbered(i)) {
			t.Fatalf("address %d may be redirected again and again", i)
		}
	}
	if len(c.now)+len(c.old) != most {
		t.Errorf("%d and %d are remembered", len(c.now), len(c.old))
	}
	redirected, later := 0, 0
	for i := range 1000 {
		client := numbered(1<<30 + i)
		if !c.has(dawn.Add(pause-time.Second), client) {
			redirected++
		}
		if !c.has(dawn.Add(pause), client) {
			later++
		}
	}
	if redirected > 0 || later != 1000 {
		t.Errorf("of 1000 strangers %d may be redirected under the flood, and %d after it", redirected, later)
	}
}
