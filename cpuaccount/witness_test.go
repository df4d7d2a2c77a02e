package cpuaccount

import (
	"fmt"
	"testing"
	"time"
)

// TestAFeatureIsBelievedFromSeveral trains a parameter with cheap answers, on a site whose searches cost a CPU-second
// each.
func TestAFeatureIsBelievedFromSeveral(t *testing.T) {
	const shape = "/search?x&q"
	for _, c := range []struct {
		name                string
		addresses, sessions int
		believed            bool
	}{
		{"one address", 1, 1, false},
		{"sixteen sessions of one address", 1, 16, false},
		{"two addresses", 2, 1, false},
		{"three addresses", 3, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newEstimator()
			for i := range 10 {
				g.Learn(at(0), Kind{Shape: shape, URL: fmt.Sprint("/search?x=usual&q=", i), Client: fmt.Sprint(i)}, time.Second, 0)
			}
			trained := func(address, session, q int) Kind {
				return Kind{
					Shape: shape, URL: fmt.Sprint("/search?x=trained&q=", address, session, q),
					Client: fmt.Sprint("trainer ", address, session), Address: fmt.Sprint("192.0.2.", address),
				}
			}
			for a := range c.addresses {
				for s := range c.sessions {
					for q := range least {
						g.Learn(at(0), trained(a, s, q), time.Millisecond, 0)
					}
				}
			}
			got, _, _ := g.Of(at(0), Kind{Shape: shape, URL: "/search?x=trained&q=", Client: "somebody"})
			if believed := got < 10*time.Millisecond; believed != c.believed {
				t.Errorf("somebody else: %s", got)
			}
			if got, _, sure := g.Of(at(0), trained(0, 0, 100)); got > 10*time.Millisecond || !sure {
				t.Errorf("the client with the answers: %s (sure: %t)", got, sure)
			}
		})
	}
}

// TestOneVisitor checks that the only visitor of a site gets guesses from its own answers, for each parameter.
func TestOneVisitor(t *testing.T) {
	g := newEstimator()
	me := func(route string, n int) Kind {
		return Kind{Shape: "/index.php?route&n", URL: fmt.Sprintf("/index.php?route=%s&n=%d", route, n), Client: "me"}
	}
	for n := range 20 {
		for _, k := range []Kind{me("home", n), me("search", n)} {
			cost := 20 * time.Millisecond
			if k == me("search", n) {
				cost = 400 * time.Millisecond
			}
			g.Ask(at(0), k)
			g.Learn(at(float64(n)), k, cost, 0)
		}
	}
	expectEstimate(t, g, 20, me("home", 100), 20*time.Millisecond, true)
	expectEstimate(t, g, 20, me("search", 100), 400*time.Millisecond, true)
}

// TestExpensiveForFew checks that a feature that was expensive for one client, and for which no other client has
// answers, doesn't count as light like the rest of its shape.
func TestExpensiveForFew(t *testing.T) {
	g := newEstimator()
	for range least {
		g.Learn(at(0), Kind{Shape: "/wiki?action", URL: "/wiki?action=history", Client: "crawler"}, 2*time.Second, 0)
	}
	for i := range 100 {
		g.Learn(at(0), Kind{Shape: "/wiki?action", URL: "/wiki?action=view", Client: fmt.Sprint(i)}, 20*time.Millisecond, 0)
	}
	if got, _, sure := g.Of(at(0), Kind{Shape: "/wiki?action", URL: "/wiki?action=history", Client: "me"}); sure {
		t.Errorf("%s, and sure", got)
	}
	expectEstimate(t, g, 0, Kind{Shape: "/wiki?action", URL: "/wiki?action=view", Client: "me"}, 20*time.Millisecond, true)
}

// TestKnownPeopleFirst has many strangers make expensive requests for pages of a shape that people read.
func TestKnownPeopleFirst(t *testing.T) {
	for _, c := range []struct {
		people int
		want   time.Duration
	}{{0, time.Second}, {1, time.Second}, {2, time.Second}, {3, 20 * time.Millisecond}, {10, 20 * time.Millisecond}} {
		g := newEstimator()
		for i := range 1000 {
			g.Learn(at(0), Kind{Shape: "/page", Client: fmt.Sprint("robot ", i)}, time.Second, 0)
		}
		for i := range c.people * 10 {
			k := Kind{Shape: "/page", Client: fmt.Sprint("session ", i), Address: fmt.Sprint(i % c.people), Known: true}
			g.Learn(at(0), k, 20*time.Millisecond, 0)
		}
		got, _, sure := g.Of(at(0), page("/page"))
		if got < c.want/2 || got > c.want*2 || !sure {
			t.Errorf("%d people: %s (sure: %t), want about %s", c.people, got, sure, c.want)
		}
	}
}

// TestANarrowFeatureStandsAgainstKnownPeople checks that pages that only robots request are judged by the
// robots' answers, although known people's pages of the same shape have similar costs.
func TestANarrowFeatureStandsAgainstKnownPeople(t *testing.T) {
	g := newEstimator()
	for i := range 30 {
		n := fmt.Sprint("&n=", i)
		g.Learn(at(0), Kind{Shape: "/p?r&n", URL: "/p?r=home&n=", Client: fmt.Sprint("person ", -i), Known: true}, 20*time.Millisecond, 0)
		g.Learn(at(0), Kind{Shape: "/p?r&n", URL: "/p?r=home" + n, Client: fmt.Sprint("person ", i), Known: true}, 20*time.Millisecond, 0)
		g.Learn(at(0), Kind{Shape: "/p?r&n", URL: "/p?r=search" + n, Client: fmt.Sprint("robot ", i)}, 400*time.Millisecond, 0)
	}
	expectEstimate(t, g, 0, Kind{Shape: "/p?r&n", URL: "/p?r=search&n=x", Client: "new"}, 400*time.Millisecond, true)
	expectEstimate(t, g, 0, Kind{Shape: "/p?r&n", URL: "/p?r=home&n=x", Client: "new"}, 20*time.Millisecond, true)
}

func TestParametersArePartedBySemicolonsToo(t *testing.T) {
	for query, want := range map[string][]string{
		"a=1&b=2":      {"a=1", "b=2"},
		"a=1;b=2":      {"a=1", "b=2"},
		"a=1;b=2&c":    {"a=1", "b=2", "c"},
		"a=1&b=2;c":    {"a=1", "b=2", "c"},
		";&;a;&":       {"a"},
		"":             nil,
		"a;b;c;d;e;f;": {"a", "b", "c", "d"}, // no more are distinguished
	} {
		g := newEstimator()
		k := Kind{Shape: "/s", URL: "/s?" + query}
		var buffer [maxFeatures]uint64
		features := g.features(&k, &buffer)
		if len(features) != 2+len(want) {
			t.Errorf("%q: %d features", query, len(features))
			continue
		}
		for i, w := range want {
			alone := Kind{Shape: "/s", URL: "/s?" + w}
			var other [maxFeatures]uint64
			if features[i+2] != g.features(&alone, &other)[2] {
				t.Errorf("%q: parameter %d is not %q", query, i, w)
			}
		}
	}
}
