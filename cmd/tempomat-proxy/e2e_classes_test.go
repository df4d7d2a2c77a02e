package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"

	"tempomat/internal/testkit"
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
