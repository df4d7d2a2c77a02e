package classify

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func sited(t testing.TB, given ...Site) *Classifier {
	t.Helper()
	c, err := New(Config{AddressHeader: NoHeader, Sites: given})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func siteOf(c *Classifier, host string) string {
	var who Result
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Host = host
	c.Classify(r, &who)
	return who.Site
}

// TestSiteOfHost: however a name is written that a backend takes for the same one, it is the
// same site; and what is only like it is none.
func TestSiteOfHost(t *testing.T) {
	c := sited(t,
		Site{Name: "shop", Hosts: []string{"shop.example", "www.shop.example", "[2001:db8::1]", "192.0.2.1"}},
		Site{Name: "blogs", Hosts: []string{"*.blogs.example"}},
		Site{Name: "big", Hosts: []string{"*.big.blogs.example", "me.blogs.example"}})
	for host, want := range map[string]string{
		"shop.example": "shop", "SHOP.Example": "shop", "shop.example:8080": "shop", "shop.example.": "shop", "shop.example.:443": "shop",
		"www.shop.example": "shop", "[2001:db8::1]": "shop", "[2001:DB8::1]:8443": "shop", "192.0.2.1:80": "shop",
		"a.blogs.example": "blogs", "a.b.c.blogs.example:1": "blogs", "A.BLOGS.EXAMPLE.": "blogs",
		"x.big.blogs.example": "big", "y.x.big.blogs.example": "big", "big.blogs.example": "blogs", "me.blogs.example": "big",
		"": "", "blogs.example": "", "xblogs.example": "", ".blogs.example": "", "shop.example..": "", "shop.example:80:80": "",
		"other.example": "", "example": "", "[2001:db8::2]": "", "shop.example@evil": "", "xshop.example": "", "shop.example.evil": "",
		strings.Repeat("a.", 200) + "blogs.example": "",
	} {
		if got := siteOf(c, host); got != want {
			t.Errorf("%q is of the site %q, want %q", host, got, want)
		}
		if got := c.SiteOf(host); got != want {
			t.Errorf("SiteOf(%q) is %q, want %q", host, got, want)
		}
	}
}

// TestInventedHostsHaveNoSite: nobody gets into a site by a host that nobody wrote down.
func TestInventedHostsHaveNoSite(t *testing.T) {
	c := sited(t, Site{Name: "shop", Hosts: []string{"shop.example"}}, Site{Name: "blogs", Hosts: []string{"*.blogs.example"}})
	rapid.Check(t, func(t *rapid.T) {
		host := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-zA-Z.:\[\]-]{0,20}(shop|blogs)?\.?(example)?[.:0-9]{0,4}`)).Draw(t, "host")
		name := strings.ToLower(withoutPort(host))
		want := ""
		switch {
		case name == "shop.example":
			want = "shop"
		case strings.HasSuffix(name, ".blogs.example") && len(name) <= longestHost && name[0] != '.':
			want = "blogs"
		}
		if got := siteOf(c, host); got != want && asciiOnly(host) {
			t.Fatalf("%q is of the site %q, want %q", host, got, want)
		} else if got != "" && got != want {
			t.Fatalf("%q got into the site %q", host, got)
		}
	})
}

func asciiOnly(s string) bool {
	return strings.IndexFunc(s, func(c rune) bool { return c > 127 }) < 0
}

// TestExemptAtASite: what is exempt at one site is not at another.
func TestExemptAtASite(t *testing.T) {
	c := sited(t, Site{Name: "shop", Hosts: []string{"shop.example"}, Exempt: []Exemption{{Path: "/pay/*"}}}, Site{Name: "blog", Hosts: []string{"blog.example"}})
	for url, want := range map[string]bool{
		"http://shop.example/pay/now": true, "http://shop.example/": false, "http://blog.example/pay/now": false, "http://invented.example/pay/now": false,
	} {
		var who Result
		r := httptest.NewRequest(http.MethodGet, url, nil)
		if c.Classify(r, &who); who.Exempt != want {
			t.Errorf("%s: exempt is %t, want %t", url, who.Exempt, want)
		}
		if c.Exempts(who.Client, r.URL) != want {
			t.Errorf("%s: a plain request is exempt: %t", url, !want)
		}
	}
}

// TestBadSites: each is refused with its name and fault.
func TestBadSites(t *testing.T) {
	for _, c := range []struct {
		want  string
		sites []Site
	}{
		{"a site needs a name", []Site{{Hosts: []string{"a"}}}},
		{"needs a host", []Site{{Name: "a"}}},
		{"given twice", []Site{{Name: "a", Hosts: []string{"a", "a"}}}},
		{"given twice", []Site{{Name: "a", Hosts: []string{"*.a"}}, {Name: "b", Hosts: []string{"*.a"}}}},
		{"the name is given twice", []Site{{Name: "a", Hosts: []string{"a"}}, {Name: "a", Hosts: []string{"b"}}}},
		{"lower case", []Site{{Name: "a", Hosts: []string{"A.example"}}}},
		{"without a port", []Site{{Name: "a", Hosts: []string{"a.example:80"}}}},
		{"lower case", []Site{{Name: "a", Hosts: []string{"*."}}}},
		{"lower case", []Site{{Name: "a", Hosts: []string{"a.*.example"}}}},
		{"exemption 1", []Site{{Name: "a", Hosts: []string{"a"}, Exempt: []Exemption{{}}}}},
	} {
		if _, err := New(Config{AddressHeader: NoHeader, Sites: c.sites}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.sites, err, c.want)
		}
	}
}

// TestLongHosts: a host is as long as DNS allows.
func TestLongHosts(t *testing.T) {
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
}
