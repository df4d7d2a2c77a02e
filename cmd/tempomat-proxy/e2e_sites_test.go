package main

import (
	"net/http"
	"testing"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/admin/api"
)

const twoSites = `
cpuCount: 1
newcomers: {redirect: false}
sites:
  crawled: {hosts: [crawled.test, "*.crawled.test"]}
  calm: {hosts: [calm.test], share: 3}
`

// sites returns the state of the sites at the gate, by name.
func (s *sidecarProcess) sites() map[string]limiter.SiteState {
	s.t.Helper()
	var g api.GateReply
	s.ask("/v1/gate", &g)
	all := make(map[string]limiter.SiteState)
	for _, x := range g.Sites {
		all[x.Name] = x
	}
	return all
}

// TestSitesAsApacheHasThem: however a client writes a host, its request counts for the site whose virtual host Apache
// selects. A request for an unknown host counts for no site.
func TestSitesAsApacheHasThem(t *testing.T) {
	t.Parallel()
	backend := startApache(t, "--hosts", "crawled.test,www.crawled.test,calm.test")
	s := startProxy(t, backend.url, twoSites)
	c := newClient(t)
	for _, x := range []struct{ host, vhost, site string }{
		{"crawled.test", "crawled.test", "crawled"}, {"CRAWLED.test:80", "crawled.test", "crawled"}, {"www.crawled.test.", "www.crawled.test", "crawled"},
		{"calm.test", "calm.test", "calm"}, {"calm.test.:8080", "calm.test", "calm"},
		{"invented.test", "default", "others"}, {"calm.test.invented", "default", "others"}, {"[::1]:80", "default", "others"},
	} {
		before := s.sites()[x.site].Ended
		a := fetch(t, c, http.MethodGet, s.url+"/page.php?ms=1", http.Header{"Host": {x.host}}, nil)
		if got := a.Header.Get("X-Served-By"); a.StatusCode != http.StatusOK || got != x.vhost {
			t.Errorf("%s is answered by %q (%s), want %q", x.host, got, a.Status, x.vhost)
		}
		testkit.Eventually(t, "it is counted for "+x.site+": "+x.host, func() bool { return s.sites()[x.site].Ended == before+1 })
	}
}
