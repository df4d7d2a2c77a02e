package limiter

import (
	"cmp"
	"testing"
)

// TestFewSitesOfAClient: beside its first site a client is remembered at three where it has no work; of more, that where it
// is the least ahead is forgotten, and nowhere where it has work.
func TestFewSitesOfAClient(t *testing.T) {
	at := func(name string) *site { return &site{name: name, clock: clock{systemVirtualTime: 10}} }
	names := func(c *client) (all string) {
		for x := c.elsewhere; x != nil; x = x.elsewhere {
			all = x.site.name + all
		}
		return all
	}
	for name, x := range map[string]struct {
		lead  map[string]float64 // virtual time beyond the clock
		share float64            // at b; half at the others; 0: as there
		work  string             // where it has some
		want  string
	}{
		"the least ahead":         {map[string]float64{"a": 3, "b": 1, "c": 2}, 0, "", "acd"},
		"in CPU-seconds":          {map[string]float64{"a": 3, "b": 1, "c": 2}, 4, "", "abd"},
		"behind is not ahead":     {map[string]float64{"a": 1, "b": 0, "c": -5}, 0, "", "abd"},
		"all of them work":        {nil, 0, "abc", "abcd"},
		"the least works":         {map[string]float64{"a": 3, "b": 1, "c": 2}, 0, "b", "abd"},
		"two work, the rest goes": {map[string]float64{"a": 3, "b": 1, "c": 2}, 0, "bc", "bcd"},
	} {
		c := &client{site: at("home"), known: true, first: 7}
		sites := map[string]*site{}
		for _, n := range []string{"a", "b", "c"} {
			sites[n] = at(n)
			v := c.visit(sites[n])
			if v.site != sites[n] || !v.known || v.first != 7 || c.visit(sites[n]) != v {
				t.Errorf("%s: it is %+v at %s", name, *v, n)
			}
			if v.share, v.virtualTime = 0.5, 10+x.lead[n]; n == "b" {
				v.share = cmp.Or(x.share, v.share)
			}
		}
		for _, n := range x.work {
			c.visit(sites[string(n)]).work = 1
		}
		if c.visit(at("d")); names(c) != x.want {
			t.Errorf("%s: it is remembered at %q, want %q", name, names(c), x.want)
		}
	}
	c := &client{site: at("home")}
	a := at("a")
	if v := c.visit(a); v.known {
		t.Error("a stranger is known elsewhere")
	}
	if c.known = true; !c.visit(a).known {
		t.Error("whom the gate knows is a stranger elsewhere")
	}
	if c.known = false; !c.visit(a).known {
		t.Error("who was known elsewhere is so no longer")
	}
}

// TestWhoIsIdle: nobody of whom anything waits or runs, nor any User-Agent of its address.
func TestWhoIsIdle(t *testing.T) {
	for name, x := range map[string]struct {
		c    client
		want bool
	}{
		"nothing":                   {client{}, true},
		"work":                      {client{flow: flow{work: 1}}, false},
		"one waits":                 {client{queued: 1}, false},
		"one runs":                  {client{running: 1}, false},
		"an idle address":           {client{address: &address{}}, true},
		"one of its address works":  {client{address: &address{n: 1}}, false},
		"idle User-Agents":          {client{faces: &[faces]*client{3: {}}}, true},
		"one of a User-Agent waits": {client{faces: &[faces]*client{3: {queued: 1}}}, false},
		"one of a User-Agent runs":  {client{faces: &[faces]*client{7: {running: 1}}}, false},
	} {
		if x.c.isIdle() != x.want {
			t.Errorf("%s: it is idle: %t", name, !x.want)
		}
	}
}
