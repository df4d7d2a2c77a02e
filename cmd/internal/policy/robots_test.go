package policy

import (
	"net/netip"
	"slices"
	"testing"

	"tempomat/classify/robots"
	"tempomat/config"
	"tempomat/internal/testkit"
	"tempomat/limiter"
)

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
	if want := []string{"slash32", "slash16", "userAgent", "asn"}; !slices.Equal(x.Replaces, want) {
		t.Errorf("in place of %q, want %q", x.Replaces, want)
	}
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
