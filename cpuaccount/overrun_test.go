package cpuaccount

import (
	"fmt"
	"testing"
	"time"
)

// pages returns an Estimator for a site whose pages cost 20 ms, as learned from several strangers and known
// people.
func pages() *Estimator {
	g := newEstimator()
	for i := range 10 {
		g.Learn(at(0), Kind{Shape: "/a", Client: fmt.Sprint("stranger ", i)}, 20*time.Millisecond, 0)
		for range least {
			g.Learn(at(0), person(i), 20*time.Millisecond, 0)
		}
	}
	return g
}

func person(i int) Kind { return Kind{Shape: "/a", Client: fmt.Sprint("person ", i), Known: true} }

// TestOverrun checks which guesses are in doubt after a running request costs far more than guessed.
func TestOverrun(t *testing.T) {
	newPerson := Kind{Shape: "/a", Client: "new person", Known: true}
	for _, c := range []struct {
		name                       string
		who                        Kind
		soFar                      time.Duration
		stranger, newPerson, again bool // whether the guess is sure
	}{
		{"a stranger's is little more", page("/a"), 70 * time.Millisecond, true, true, true},
		{"a stranger's", page("/a"), time.Second, false, true, false},
		{"a known client's that has no history", Kind{Shape: "/a", Client: "me", Known: true}, time.Second, false, false, false},
		{"a known client's", person(0), time.Second, false, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := pages()
			g.AtLeast(at(1), c.who, c.soFar/2, 0)
			g.AtLeast(at(1), c.who, c.soFar, 0)
			g.AtLeast(at(1), c.who, c.soFar/2, 0)
			for who, sure := range map[Kind]bool{
				{Shape: "/a", Client: "stranger"}: c.stranger, newPerson: c.newPerson, c.who: c.again,
				person(1): true, // the known client's own answers vouch for it
			} {
				got, _, s := g.Of(at(1), who)
				if s != sure {
					t.Errorf("%s: %s (sure: %t)", who.Client, got, s)
				}
				if who != c.who && !sure && got < c.soFar*99/100 {
					t.Errorf("%s: %s, although one cost %s", who.Client, got, c.soFar)
				}
			}
		})
	}
}

// TestSharedFeaturesAreNotToBlame: an expensive request shares its shape and a parameter with a page that is
// known to be light. A feature that only that page has vouches for it.
func TestSharedFeaturesAreNotToBlame(t *testing.T) {
	g := newEstimator()
	k := func(who, route string) Kind {
		return Kind{Shape: "/p?route&lang", URL: "/p?route=" + route + "&lang=en", Client: who}
	}
	for i := range 10 {
		g.Learn(at(0), k(fmt.Sprint(i), "home"), 20*time.Millisecond, 0)
	}
	g.AtLeast(at(1), k("crawler", "search"), time.Second, 0)
	expectEstimate(t, g, 1, k("me", "home"), 20*time.Millisecond, true)
	for _, route := range []string{"search", "other"} {
		if got, _, sure := g.Of(at(1), k("me", route)); sure || got < 900*time.Millisecond {
			t.Errorf("%s: %s (sure: %t)", route, got, sure)
		}
	}
	g.AtLeast(at(1), k("crawler", "home"), time.Second, 0)
	expectEstimate(t, g, 1, k("me", "home"), time.Second, false)
}

// TestNeverAnswered: for a kind without any answer, the Estimator uses the cost and the idle time of running requests.
// A parameter that is often requested, but whose requests never run long, doesn't count as equally
// expensive.
func TestNeverAnswered(t *testing.T) {
	g := newEstimator()
	k := func(route string) Kind { return Kind{Shape: "/p?route", URL: "/p?route=" + route, Client: route} }
	g.AtLeast(at(1), k("stream"), 0, time.Second)
	for _, c := range []struct {
		asked      int
		route      string
		cost, idle time.Duration
	}{
		{0, "stream", time.Second, time.Second},
		{0, "home", time.Second, time.Second},
		{least, "home", first, 0},
		{least, "stream", time.Second, time.Second},
	} {
		for range c.asked {
			g.Ask(at(0), k(c.route))
		}
		kind := k(c.route)
		kind.Client = "me"
		got, idle, sure := g.Of(at(1), kind)
		if got.Round(time.Millisecond) != c.cost || idle.Round(time.Millisecond) != c.idle || sure {
			t.Errorf("%s, asked %d times: %s, idle %s (sure: %t)", c.route, c.asked, got, idle, sure)
		}
	}
}

// TestATrifleIsNoOverrun: a file that takes some milliseconds on a busy server casts no doubt on its guess.
func TestATrifleIsNoOverrun(t *testing.T) {
	g := newEstimator()
	others(g, "/style.css", time.Millisecond, time.Millisecond, time.Millisecond)
	for range least {
		g.Learn(at(0), Kind{Shape: "/style.css", Client: "me"}, time.Millisecond, 0)
	}
	for _, who := range []string{"me", "somebody"} {
		g.AtLeast(at(1), Kind{Shape: "/style.css", Client: who}, 20*time.Millisecond, 0)
		for _, k := range []Kind{page("/style.css"), {Shape: "/style.css", Client: "me"}} {
			expectEstimate(t, g, 1, k, time.Millisecond, true)
		}
	}
}

// TestOverrunIsTakenBack checks that doubt ends after answers, and with time.
func TestOverrunIsTakenBack(t *testing.T) {
	me := Kind{Shape: "/a", Client: "me"}
	answers := map[string]func(g *Estimator, i int){
		"strangers' answers": func(g *Estimator, i int) {
			g.Learn(at(1), Kind{Shape: "/a", Client: fmt.Sprint("other ", i)}, 20*time.Millisecond, 0)
		},
		"its own answers": func(g *Estimator, _ int) { g.Learn(at(1), me, 20*time.Millisecond, 0) },
	}
	for name, answer := range answers {
		g := pages()
		g.AtLeast(at(1), page("/a"), 8*time.Second, 0)
		if _, _, sure := g.Of(at(1), me); sure {
			t.Fatal("no doubt")
		}
		for i := range 10 {
			answer(g, i)
		}
		expectEstimate(t, g, 1, me, 20*time.Millisecond, true)
		if t.Failed() {
			t.Error(name)
		}
	}
	g := pages()
	g.AtLeast(at(1), page("/a"), 8*time.Second, 0)
	expectEstimate(t, g, 11, me, 4*time.Second, false)
	expectEstimate(t, g, 101, me, 20*time.Millisecond, true)
	for i := range 10 { // these answers show nothing about strangers
		g.AtLeast(at(200), page("/a"), 8*time.Second, 0)
		g.Learn(at(200), person(i), 20*time.Millisecond, 0)
	}
	expectEstimate(t, g, 200, me, 8*time.Second, false)
}
