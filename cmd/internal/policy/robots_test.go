package policy

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tempomat/classify"
	"tempomat/config"
	"tempomat/limiter"
)

// nowhere knows of no address what it is called.
type nowhere struct{}

func (nowhere) Host(time.Time, netip.Addr) (string, bool) { return "", false }

func robotsOf(t *testing.T, text string) (*classify.Robots, []string) {
	t.Helper()
	c, err := config.Parse([]byte(text), "t", nil)
	if err != nil {
		t.Fatal(err)
	}
	x, domains, err := Robots(c, nowhere{})
	if err != nil {
		t.Fatal(err)
	}
	return x, domains
}

func crawler(x *classify.Robots, name string) (of classify.Crawler) {
	for _, c := range x.Crawlers {
		if c.Name == name {
			of = c
		}
	}
	return of
}

// TestRobots: what is given of a robot is in place of what is known of it, and its User-Agents
// are nobody else's.
func TestRobots(t *testing.T) {
	x, domains := robotsOf(t, `
classes:
  slash24: off
  asn: {share: 0.2}
  key: {header: X-Key, share: 0.1}
  fingerprint: {share: 0.1}
databases: {asn: /var/lib/asn.mmdb}
robots:
  share: 0.05
  known:
    - {name: gptbot, agents: [GPTBot, OAI-SearchBot, googleother], addresses: [192.0.2.0/24]}
    - {name: bingbot, domains: [Bing.example]}
    - {name: mj12bot, domains: [crawl.example]}
`)
	if diff := cmp.Diff(classify.Crawler{
		Name: "gptbot", Agents: []string{"gptbot", "searchbot", "googleother"},
		Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
	}, crawler(x, "gptbot"), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if of := crawler(x, "googlebot"); slices.Contains(of.Agents, "googleother") || !slices.Contains(of.Agents, "googlebot") {
		t.Errorf("Google's are %q", of.Agents)
	}
	if of := crawler(x, "bingbot"); !slices.Equal(of.Domains, []string{"bing.example"}) || !slices.Contains(of.Agents, "msnbot") {
		t.Errorf("Bing's is %+v", of)
	}
	if of := crawler(x, "mj12bot"); !slices.Equal(of.Agents, []string{"mj#bot"}) {
		t.Errorf("the one with digits is %+v", of)
	}
	if want := []string{"slash32", "slash16", "userAgent", "asn", "fingerprint"}; !slices.Equal(x.Replaces, want) {
		t.Errorf("in place of %q, want %q", x.Replaces, want)
	}
	if !slices.Contains(domains, "googlebot.com") || !slices.Contains(domains, "bing.example") || slices.Contains(domains, "search.msn.com") {
		t.Errorf("domains %q", domains)
	}
	if x.Hosts == nil {
		t.Error("nobody is asked")
	}
}

// TestRobotsOff: nobody has an account of a robot.
func TestRobotsOff(t *testing.T) {
	if x, _ := robotsOf(t, "robots: {enabled: false}"); x != nil {
		t.Errorf("there are %+v", x)
	}
	for text, want := range map[string]bool{"": true, "robots: {enabled: false}": false} {
		c, _ := config.Parse([]byte(text), "t", nil)
		if got := slices.ContainsFunc(Limits(c).Classes, func(x limiter.ClassInfo) bool { return x.Name == config.RobotClass }); got != want {
			t.Errorf("%q: the limiter has the class: %t", text, got)
		}
	}
}
