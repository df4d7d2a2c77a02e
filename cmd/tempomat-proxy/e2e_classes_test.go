package main

import (
	"io"
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

// sendRaw sends a request byte by byte, and waits for the end of its answer.
func sendRaw(t *testing.T, url, text string) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
		t.Fatalf("%v: %.200s", err, answer)
	}
}

// TestClassesOfTheTable: classes that are off until they have a share charge requests and are
// shown as the others are; their database is read again with the configuration, and a broken
// one leaves the one before.
func TestClassesOfTheTable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "asn.mmdb")
	writeASNs(t, file, 64496)
	const client = "198.51.100.7"
	conf := "classes: {slash16: off, asn: {share: 0.5}, fingerprint: {share: 0.5}, host: {share: 0.9}}\n" +
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

	// In which order a client sends its fields is seen on the wire, and nowhere else.
	for _, fields := range []string{"Accept: */*\r\nUser-Agent: x\r\n", "User-Agent: x\r\nAccept: */*\r\n", "Cookie: a=b\r\nUser-Agent: y\r\nAccept: a/b\r\n"} {
		sendRaw(t, s.url, "GET /style.css HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"+fields+"\r\n")
	}
	if _, out, _ := s.doctor("--bucket", "fingerprint", "--json"); strings.Count(out, `"id":`) != 3 { // the first is that of s.get
		t.Errorf("want three fingerprints, got %s", out)
	}

	at := s.stderr.Len()
	if err := os.Truncate(file, 300); err != nil {
		t.Fatal(err)
	}
	at = ways[0].reload(s, at, reloaded)
	s.stderr.Await(t, 0, `"msg":"a database of addresses cannot be used"`, `"file":"`+file+`"`, "not all of one", `"the one before stays":true`)
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
