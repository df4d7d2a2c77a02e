package policy

import (
	"net"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tempomat/classify"
	"tempomat/config"
	"tempomat/limiter"
)

// identified is what a sidecar calls a client in the domain api, by the configuration's line.
func identified(t *testing.T, identifier, address, agent string) string {
	t.Helper()
	c, err := config.Parse([]byte("coordination: {kind: smockron, smockron: {master: 'tcp://127.0.0.1:10004', "+
		"domains: [{domain: api, class: slash32, charge: requests, identifier: "+identifier+"}]}}"), "t.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	classifier, err := Classifier(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = net.JoinHostPort(address, "12345")
	r.Header.Set("User-Agent", agent)
	var who classify.Result
	classifier.Classify(r, &who)
	keys := who.Keys()
	i := slices.IndexFunc(keys, func(k limiter.Key) bool { return k.Class == "api" })
	if i < 0 {
		return ""
	}
	return keys[i].ID
}

// cells are those of a row of a table in Markdown.
func cells(line string) (all []string) {
	for cell := range strings.SplitSeq(strings.Trim(strings.TrimSpace(line), "|"), "|") {
		all = append(all, strings.Trim(strings.TrimSpace(cell), "`"))
	}
	return all
}

// TestIdentifiersOfTheManual: what the manual says that clients are called is what they are
// called, address by address.
func TestIdentifiersOfTheManual(t *testing.T) {
	text, err := os.ReadFile("../../../docs/master.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "| client | `key` of class `slash32` |")
	if !ok {
		t.Fatal("the manual has no table of identifiers")
	}
	rows := 0
	for line := range strings.Lines(table) {
		row := cells(strings.TrimSuffix(line, "\n"))
		if len(row) == 1 && rows > 0 {
			break
		}
		if len(row) != 4 || net.ParseIP(row[0]) == nil {
			continue
		}
		rows++
		for i, identifier := range []string{"key", "address", "mapped-address"} {
			if got := identified(t, identifier, row[0], "x"); got != row[1+i] {
				t.Errorf("%s by %s is %q; the manual has %q", row[0], identifier, got, row[1+i])
			}
		}
	}
	if rows < 3 {
		t.Errorf("the manual's table has %d rows", rows)
	}
}

// TestIdentifiersOfTheOriginals: byte by byte what the original gatekeepers were seen to send.
func TestIdentifiersOfTheOriginals(t *testing.T) {
	long := "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36"
	got := map[string]string{}
	for name, x := range map[string][3]string{
		"Node on ::, IPv4":       {"mapped-address", "10.1.2.3", "curl"},
		"Node on ::, IPv6":       {"mapped-address", "2001:db8::5", "curl"},
		"Node on 0.0.0.0":        {"address", "10.1.2.3", "curl"},
		"nginx, IPv6":            {"address", "2001:db8:0:0:0:ff00:42:8329", "curl"},
		"the header itself":      {"user-agent", "10.1.2.3", long},
		"the header, odd":        {"user-agent", "10.1.2.3", "a; B é"},
		"no header":              {"user-agent", "10.1.2.3", ""},
		"more than a master has": {"user-agent", "10.1.2.3", strings.Repeat("x", 2000)},
	} {
		got[name] = identified(t, x[0], x[1], x[2])
	}
	want := map[string]string{
		"Node on ::, IPv4": "::ffff:10.1.2.3", "Node on ::, IPv6": "2001:db8::5", "Node on 0.0.0.0": "10.1.2.3",
		"nginx, IPv6": "2001:db8::ff00:42:8329", "the header itself": long, "the header, odd": "a; B é", "no header": "",
		"more than a master has": strings.Repeat("x", 1024),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-sent by the originals, +by a sidecar:\n%s", diff)
	}
}
