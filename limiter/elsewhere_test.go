package limiter

import (
	"cmp"
	"testing"

	"tempomat/internal/testkit"
)

// TestFewSitesOfAClient: the gate remembers a client at its first site, and at three more where the client is
// idle. If there are more, the gate forgets the one with the smallest lead, but none where the client has work.
func TestFewSitesOfAClient(t *testing.T) {
	at := func(name string) *site { return &site{name: name, clock: clock{systemVirtualTime: 10}} }
	names := func(c *client) (all string) {
		for x := c.elsewhere; x != nil; x = x.elsewhere {
			all = x.site.name + all
		}
		return all
	}
	for name, x := range map[string]struct {
		lead  map[string]float64 // how far its virtual time is beyond the clock
		share float64            // its share at b; half of that at the other sites; 0: the same share at all sites
		work  string             // the sites where it has work
		want  string
	}{
		"least lead is forgotten":        {map[string]float64{"a": 3, "b": 1, "c": 2}, 0, "", "acd"},
		"lead counts in CPU-seconds":     {map[string]float64{"a": 3, "b": 1, "c": 2}, 4, "", "abd"},
		"behind the clock means no lead": {map[string]float64{"a": 1, "b": 0, "c": -5}, 0, "", "abd"},
		"work at all sites":              {nil, 0, "abc", "abcd"},
		"work where the lead is least":   {map[string]float64{"a": 3, "b": 1, "c": 2}, 0, "b", "abd"},
		"work at two sites":              {map[string]float64{"a": 3, "b": 1, "c": 2}, 0, "bc", "bcd"},
	} {
		c := &client{site: at("home"), known: true, first: 7}
		sites := map[string]*site{}
		for _, n := range []string{"a", "b", "c"} {
			sites[n] = at(n)
			v := c.visit(sites[n])
			if v.site != sites[n] || !v.known || v.first != 7 || c.visit(sites[n]) != v {
				t.Errorf("%s: the client is %+v at %s", name, *v, n)
			}
			if v.share, v.virtualTime = 0.5, 10+x.lead[n]; n == "b" {
				v.share = cmp.Or(x.share, v.share)
			}
		}
		for _, n := range x.work {
			c.visit(sites[string(n)]).work = 1
		}
		if c.visit(at("d")); names(c) != x.want {
			t.Errorf("%s: the client is remembered at %q, want %q", name, names(c), x.want)
		}
	}
	c := &client{site: at("home")}
	a := at("a")
	if v := c.visit(a); v.known {
		t.Error("a stranger is known elsewhere")
	}
	if c.known = true; !c.visit(a).known {
		t.Error("a known client is a stranger elsewhere")
	}
	if c.known = false; !c.visit(a).known {
		t.Error("a client that was known elsewhere isn't any more")
	}
}

// TestIsIdle: a client is idle if no request from it, its address or one of its User-Agents waits or runs.
func TestIsIdle(t *testing.T) {
	for name, x := range map[string]struct {
		c    client
		want bool
	}{
		"nothing":                       {client{}, true},
		"work":                          {client{flow: flow{work: 1}}, false},
		"a request waits":               {client{queued: 1}, false},
		"a request runs":                {client{running: 1}, false},
		"an idle address":               {client{address: &address{}}, true},
		"address has work":              {client{address: &address{n: 1}}, false},
		"idle User-Agents":              {client{faces: &[faces]*client{3: {}}}, true},
		"request of a User-Agent waits": {client{faces: &[faces]*client{3: {queued: 1}}}, false},
		"request of a User-Agent runs":  {client{faces: &[faces]*client{7: {running: 1}}}, false},
	} {
		testkit.Same(t, x.want, x.c.isIdle(), "%s: idle", name)
	}
}
