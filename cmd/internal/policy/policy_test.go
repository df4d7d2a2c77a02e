package policy

import (
	"net"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tempomat/classify"
	"tempomat/classify/robots"
	"tempomat/config"
	"tempomat/internal/sim"
	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// TestSimulatedAsShipped: the simulator uses the settings of the default configuration. Its results therefore apply to
// these.
func TestSimulatedAsShipped(t *testing.T) {
	for mode, name := range map[limiter.Mode]string{limiter.Fair: "fair", limiter.Observe: "observe"} {
		for _, workers := range []int{0, 16} {
			for _, cpus := range []float64{1, 2, 8, 64} {
				c := config.Default()
				c.Throttle.Mode, c.CPUCount, c.Backend.Workers = name, cpus, workers
				testkit.Same(t, Limits(c), sim.Policy(mode, cpus, workers), "%s, %g CPUs, %d workers: shipped (-), simulated (+)", name, cpus, workers)
			}
		}
	}
	c := config.Default()
	c.CPUCount = 4096
	testkit.Same(t, mostHeld, Limits(c).MaxHeld, "waiting requests with very many CPUs")
	c = config.Default()
	var classes []classify.Class
	for _, class := range c.Classes {
		classes = append(classes, classOf(class))
	}
	same := cmp.Comparer(func(a, b classify.Class) bool { return a == b })
	if diff := cmp.Diff(classes, sim.Classes(), same); diff != "" {
		t.Errorf("classes: - shipped, + simulated\n%s", diff)
	}
	testkit.Same(t, Robots(c, nil).Config, sim.Robots(), "robots: shipped (-), simulated (+)")
	testkit.Same(t, Standing(c), sim.Standing(), "standing: shipped (-), simulated (+)")
	if c.Throttle.Mode != "fair" || c.Cost.Source != "auto" || c.Table.Size != sim.TableSize {
		t.Errorf("shipped are mode %s, cost %s, table %d: these are not simulated",
			c.Throttle.Mode, c.Cost.Source, c.Table.Size)
	}
}

// TestExemptionBySecret: the header must contain the secret from the file. If the file contains no secret, the error
// names the file.
func TestExemptionBySecret(t *testing.T) {
	file := filepath.Join(t.TempDir(), "monitor.secret")
	write := func(text string) {
		testkit.WriteFile(t, file, text, 0o600)
	}
	c := config.Default()
	c.Exempt = []config.Exemption{{Header: "X-Monitor-Key", Secret: file}}
	write("0123456789abcdef\n")
	classifier, err := Classifier(c, nil)
	testkit.Must(t, err)
	r := httptest.NewRequest("GET", "/", nil)
	for value, want := range map[string]bool{"0123456789abcdef": true, "0123456789abcdef\n": false, "0123456789abcdeg": false} {
		r.Header.Set("X-Monitor-Key", value)
		var who classify.Result
		if classifier.Classify(r, &who); who.Exempt != want {
			t.Errorf("%q: exempt is %v, want %v", value, who.Exempt, want)
		}
	}
	for _, text := range []string{"", "short\n", "two lines are\nno secret", "a blank is no secret", strings.Repeat("x", longestSecret+1)} {
		write(text)
		if _, err := Classifier(c, nil); err == nil || !strings.Contains(err.Error(), "exempt[0].secret: "+file) {
			t.Errorf("a file with %.20q: error %v", text, err)
		}
	}
	c.Exempt[0].Secret += ".none"
	if _, err := Classifier(c, nil); err == nil || !strings.Contains(err.Error(), "exempt[0].secret: ") || !strings.Contains(err.Error(), file) {
		t.Errorf("no file: error %v", err)
	}
}

func robotsOf(t *testing.T, text string) *robots.Robots {
	t.Helper()
	c, err := config.Parse([]byte(text), "t", nil)
	testkit.Must(t, err)
	return Robots(c, nil)
}

func robot(x *robots.Robots, name string) (of robots.Robot) {
	for _, r := range x.Robots {
		if r.Name == name {
			of = r
		}
	}
	return of
}

// TestRobots: a robot in the configuration replaces the built-in one, and no other robot has the same User-Agents.
func TestRobots(t *testing.T) {
	x := robotsOf(t, `
classes:
  slash24: off
  asn: {share: 0.2}
  key: {header: X-Key, share: 0.1}
databases: {asn: /var/lib/asn.mmdb}
robots:
  share: 0.05
  known:
    - {name: gptbot, addresses: [192.0.2.0/24]}
    - {name: googleother, domains: [other.example]}
    - {name: bingbot, domains: [Bing.example]}
    - {name: mj12bot, domains: [crawl.example]}
`)
	if of := robot(x, "gptbot"); of.Operator != "OpenAI" || !slices.Equal(of.Addresses, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}) || len(of.Lists) == 0 {
		t.Errorf("OpenAI's is %+v", of)
	}
	if of := robot(x, "bingbot"); !slices.Equal(of.Domains, []string{"bing.example"}) || !slices.Contains(of.Agents, "msnbot") {
		t.Errorf("Bing's is %+v", of)
	}
	for agent, want := range map[string]string{"GoogleOther": "googleother", "Googlebot": "googlebot", "mj12bot": "mj12bot"} {
		if k, ok := x.AccountOf(agent); !ok || k.ID != want {
			t.Errorf("%s has the account %v", agent, k)
		}
	}
	testkit.Same(t, []string{"slash32", "slash16", "userAgent", "asn"}, x.Replaces, "the classes that it replaces")
}

// TestRobotsOff: if robots are off, no robot has an account.
func TestRobotsOff(t *testing.T) {
	if x := robotsOf(t, "robots: {enabled: false}"); x != nil {
		t.Errorf("there are %+v", x)
	}
	for text, want := range map[string]bool{"": true, "robots: {enabled: false}": false} {
		c, _ := config.Parse([]byte(text), "t", nil)
		testkit.Same(t, want, slices.ContainsFunc(Limits(c).Classes, func(x limiter.ClassInfo) bool { return x.Name == config.RobotClass }), "%q: the limiter has the class", text)
	}
}

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
