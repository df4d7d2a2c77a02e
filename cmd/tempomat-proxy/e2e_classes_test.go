package main

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/admin/api"
)

// writeASNs writes a database in which 198.51.100.0/24 belongs to an autonomous system.
func writeASNs(t *testing.T, file string, number uint32) {
	t.Helper()
	tree, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "GeoLite2-ASN", IncludeReservedNetworks: true})
	testkit.Must(t, err)
	_, network, _ := net.ParseCIDR("198.51.100.0/24")
	testkit.Must(t, tree.Insert(network, mmdbtype.Map{"autonomous_system_number": mmdbtype.Uint32(number)}))
	var b strings.Builder
	if _, err := tree.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	testkit.WriteFile(t, file, b.String(), 0o644)
}

// TestClassesOfTheTable: classes that are off by default charge requests, and are shown like the others, once they have
// a share. Their database is reloaded with the configuration.
func TestClassesOfTheTable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "asn.mmdb")
	writeASNs(t, file, 64496)
	const client = "198.51.100.7"
	conf := "classes: {slash16: off, asn: {share: 0.5}, host: {share: 0.9}}\n" +
		"databases: {asn: " + file + "}\n"
	backend := startApache(t)
	s := startProxy(t, backend.url, conf)
	s.get(client, "/page.php?ms=10")
	host, _, _ := net.SplitHostPort(strings.TrimPrefix(s.url, "http://"))
	for class, id := range map[string]string{"asn": "AS64496", "host": host} {
		if _, ok := s.account(class, id); !ok {
			t.Errorf("%s %s has no account", class, id)
		}
		if status, out, errs := s.doctor("--bucket", class); status != 0 || !strings.Contains(out, id) {
			t.Errorf("the doctor shows of %s: %d %s %s", class, status, out, errs)
		}
	}
	if _, out, _ := s.doctor("explain", client); !strings.Contains(out, "AS64496") {
		t.Errorf("explain says nothing of its autonomous system: %s", out)
	}

	writeASNs(t, file, 64497)
	s.reload(reloaded)
	s.get(client, "/page.php?ms=10")
	if _, ok := s.account("asn", "AS64497"); !ok {
		t.Error("the new file is not in force")
	}
}

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
