package classify

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

func sited(given ...Site) *Classifier {
	return New(Config{AddressHeader: NoHeader, Sites: given})
}

func siteOf(c *Classifier, host string) string {
	var who Result
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Host = host
	c.Classify(r, &who)
	return who.Site
}

// TestSiteOfHost: all spellings that a backend treats as one name belong to one site. A similar name belongs to none.
func TestSiteOfHost(t *testing.T) {
	c := sited(
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
		testkit.Same(t, want, siteOf(c, host), "the site of %q", host)
		testkit.Same(t, want, c.SiteOf(host), "SiteOf(%q)", host)
	}
}

// TestLongHosts: a host may be as long as DNS allows.
func TestLongHosts(t *testing.T) {
	longest := strings.Repeat("a", longestHost)
	c := sited(Site{Name: "one", Hosts: []string{longest}})
	if c.SiteOf(longest) != "one" || c.SiteOf(longest+"a") != "" {
		t.Errorf("the longest host has the site %q, a longer one %q", c.SiteOf(longest), c.SiteOf(longest+"a"))
	}
}
