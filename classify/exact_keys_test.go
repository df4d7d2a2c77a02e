package classify

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestSegmentsAtTheirBounds(t *testing.T) {
	title := strings.TrimSuffix(strings.Repeat("w-", maxTitle), "-")
	for path, want := range map[string]string{
		"/a b": "/a-b", "/a\x7fb": "/*", "/a\x1fb": "/*", "/" + title + ".css": "/" + title + ".css", "/" + title + "-w.css": "/*.css",
		"/" + title + "-w": "/*", "/" + title + "-w." + strings.Repeat("e", maxExtension): "/*." + strings.Repeat("e", maxExtension),
		"/" + title + "-w." + strings.Repeat("e", maxExtension+1): "/*",
	} {
		if got := ShapeOf(&url.URL{Path: path}); got != want {
			t.Errorf("%q has the shape %s, want %s", path, got, want)
		}
	}
}

func TestHostsOfSites(t *testing.T) {
	longest := strings.Repeat("a", longestHost)
	for host, ok := range map[string]bool{longest: true, longest + "a": false} {
		c, err := New(Config{Sites: []Site{{Name: "one", Hosts: []string{host}}}})
		if (err == nil) != ok {
			t.Fatalf("a host of %d bytes: %v", len(host), err)
		}
		if ok && (c.SiteOf(host) != "one" || c.SiteOf(host+"a") != "") {
			t.Errorf("a host of %d bytes is of the site %q, a longer one of %q", len(host), c.SiteOf(host), c.SiteOf(host+"a"))
		}
	}
	c, err := New(Config{Sites: []Site{{Name: "one", Hosts: []string{"az.example"}}, {Name: "two", Hosts: []string{"*.example.org"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{
		"AZ.example": "one", "aZ.example:80": "one", "a.example.org": "two", "a.b.c.d.example.org": "two", "example.org": "", ".example.org": "", "": "",
	} {
		if got := c.SiteOf(host); got != want {
			t.Errorf("%q is of site %q, want %q", host, got, want)
		}
	}
}

func TestPrefixesByHand(t *testing.T) {
	for text, want := range map[string]string{
		"::ffff:0:0/96": "0.0.0.0/0", "::ffff:192.0.2.0/120": "192.0.2.0/24", "::ffff:0:0/95": "::fffe:0:0/95", "192.0.2.7/24": "192.0.2.0/24",
	} {
		if got := unmapPrefix(netip.MustParsePrefix(text)); got.String() != want {
			t.Errorf("%s becomes %s, want %s", text, got, want)
		}
	}
	if set, err := newPrefixSet(prefixes("192.0.2.1/32", "192.0.2.1/32", "192.0.2.0/24", "10.0.0.0/8")); err != nil || len(set) != 2 {
		t.Errorf("%v, %v", set, err)
	}
	if set, err := newPrefixSet(prefixes("192.0.2.1/32", "192.0.2.1/32")); err != nil || len(set) != 1 {
		t.Errorf("%v, %v", set, err)
	}
}

// TestPinsAtTheirBounds: the weakest and the strongest pin survive a restart.
func TestPinsAtTheirBounds(t *testing.T) {
	for _, standing := range []float64{leastStanding, mostStanding} {
		var p, restored Pins
		if err := p.Set(noon, pinOf(strings.Repeat("a", maxID), standing, time.Second)); err != nil {
			t.Fatal(err)
		}
		text, err := p.AppendBinary(nil)
		if err != nil || restored.UnmarshalBinary(text) != nil || len(restored.All(noon)) != 1 {
			t.Errorf("a pin of %g: %v, %v", standing, restored.All(noon), err)
		}
	}
}

// TestSessionsByHand: when a session may move, and which cookie a new one of it replaces.
func TestSessionsByHand(t *testing.T) {
	const most = 1000 + (movesAtOnce-1)*moveEvery
	for moves, want := range map[int64]bool{most: true, most + 1: false} {
		if e := (session{home: 1, moves: moves}); e.mayMove(1000) != want {
			t.Errorf("with moves until %d: %t", moves, !want)
		}
	}
	if e := (session{moves: most + 1}); !e.mayMove(1000) {
		t.Error("a session without an address cannot get one")
	}
	var e session
	for i := range uint64(valuesOfSession - valuesOfName) {
		e.learn(100+i, 5)
	}
	for i := range uint64(valuesOfName) {
		e.learn(200+i, 3)
	}
	if old := e.learn(300, 3); old != 200 {
		t.Errorf("of a name that has enough, %d makes room, want the oldest, 200", old)
	}
	if old := e.learn(301, 7); old != 100 {
		t.Errorf("of a new name, %d makes room, want the oldest of all, 100", old)
	}
	if h := hashOfName("a"); h != 0xe5 { // the upper bits of FNV-1a
		t.Errorf("a name's hash is %#x", h)
	}
}
