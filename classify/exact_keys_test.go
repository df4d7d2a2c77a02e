package classify

import (
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

// TestPinsAtTheirBounds: the weakest and the strongest pin survive a restart.
func TestPinsAtTheirBounds(t *testing.T) {
	for _, standing := range []float64{LeastStanding, MostStanding} {
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
