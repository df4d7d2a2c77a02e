package policy

import (
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"tempomat/classify"
	"tempomat/config"
	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// identified returns the identifier of a client in the domain api, for a value of the key identifier.
func identified(t *testing.T, identifier, address, agent string) string {
	t.Helper()
	c, err := config.Parse([]byte("coordination: {kind: smockron, smockron: {master: 'tcp://127.0.0.1:10004', "+
		"domains: [{domain: api, class: slash32, charge: requests, identifier: "+identifier+"}]}}"), "t.yaml", nil)
	testkit.Must(t, err)
	classifier, err := Classifier(c, nil)
	testkit.Must(t, err)
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

// cells returns the cells of a row in a Markdown table.
func cells(line string) (all []string) {
	for cell := range strings.SplitSeq(strings.Trim(strings.TrimSpace(line), "|"), "|") {
		all = append(all, strings.Trim(strings.TrimSpace(cell), "`"))
	}
	return all
}

// TestIdentifiersOfTheManual: the manual shows the real identifier for each address.
func TestIdentifiersOfTheManual(t *testing.T) {
	text := testkit.ReadFile(t, "../../../docs/master.md")
	_, table, ok := strings.Cut(text, "| client | `key` of class `slash32` |")
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
			testkit.Same(t, row[1+i], identified(t, identifier, row[0], "x"), "%s by %s", row[0], identifier)
		}
	}
	if rows < 3 {
		t.Errorf("the manual's table has %d rows", rows)
	}
}

// TestIdentifiersOfTheOriginals: the identifiers equal those of the original gatekeepers, byte by byte.
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
	testkit.Same(t, want, got, "sent by the originals (-) and by a sidecar (+)")
}
