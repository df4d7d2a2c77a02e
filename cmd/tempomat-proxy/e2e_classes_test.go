package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
)

// writeASNs writes a database in which 198.51.100.0/24 is of an autonomous system.
func writeASNs(t *testing.T, file string, number uint32) {
	t.Helper()
	tree, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "GeoLite2-ASN", IncludeReservedNetworks: true})
	if err != nil {
		t.Fatal(err)
	}
	_, network, _ := net.ParseCIDR("198.51.100.0/24")
	if err := tree.Insert(network, mmdbtype.Map{"autonomous_system_number": mmdbtype.Uint32(number)}); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if _, err := tree.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestClassesOfTheTable: classes that are off until they have a share charge requests and are
// shown as the others are; their database is read again with the configuration, and a broken
// one leaves the one before.
func TestClassesOfTheTable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "asn.mmdb")
	writeASNs(t, file, 64496)
	const client = "198.51.100.7"
	conf := "classes: {slash16: off, asn: {share: 0.5}, fingerprint: {share: 0.5}, method: {share: 0.9}, host: {share: 0.9}}\n" +
		"databases: {asn: " + file + "}\n"
	backend := startApache(t)
	s := startProxy(t, backend.url, conf)
	s.get(client, "/page.php?ms=10")
	host, _, _ := net.SplitHostPort(strings.TrimPrefix(s.url, "http://"))
	for class, id := range map[string]string{"asn": "AS64496", "method": "GET", "host": host} {
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

	at := s.stderr.len()
	if err := os.Truncate(file, 300); err != nil {
		t.Fatal(err)
	}
	at = ways[0].reload(s, at, reloaded)
	s.stderr.await(t, 0, `"msg":"a database of addresses cannot be used"`, `"file":"`+file+`"`, "not all of one", `"the one before stays":true`)
	before, _ := s.account("asn", "AS64496")
	if a := s.get(client, "/page.php?ms=10"); a.StatusCode != http.StatusOK {
		t.Fatal(a.Status)
	}
	if after, _ := s.account("asn", "AS64496"); after.Rate <= before.Rate && after.Level >= before.Level {
		t.Errorf("with a broken file nothing is charged: %+v, then %+v", before, after)
	}

	writeASNs(t, file, 64497)
	ways[0].reload(s, at, reloaded)
	s.get(client, "/page.php?ms=10")
	if _, ok := s.account("asn", "AS64497"); !ok {
		t.Error("the new file is not in force")
	}
}
