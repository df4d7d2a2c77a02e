package cpuaccount

import (
	"fmt"
	"hash/fnv"
	"math"
	"sync"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// newEstimator makes an Estimator with a hash that is the same in each run, because collisions in its tables
// must not make a test fail once in a thousand runs.
func newEstimator() *Estimator {
	return NewHashedEstimator(func(text string) uint64 {
		h := fnv.New64a()
		h.Write([]byte(text))
		return mix(h.Sum64(), 0)
	})
}

// page returns the kind of a page requested by an unknown client.
func page(shape string) Kind { return Kind{Shape: shape, Client: "nobody"} }

// others makes the Estimator learn the costs of other clients' requests of a shape.
func others(g *Estimator, shape string, costs ...time.Duration) {
	for i, c := range costs {
		g.Learn(at(0), Kind{Shape: shape, Client: fmt.Sprint("other ", i)}, c, 0)
	}
}

func expectEstimate(t *testing.T, g *Estimator, now float64, k Kind, want time.Duration, sure bool) {
	t.Helper()
	got, _, s := g.Of(at(now), k)
	if math.Abs(got.Seconds()-want.Seconds()) > 1e-3*want.Seconds()+1e-6 || s != sure {
		t.Errorf("at %g s, %+v: %s (sure: %t), want %s (%t)", now, k, got, s, want, sure)
	}
}

func TestGuess(t *testing.T) {
	g := newEstimator()
	expectEstimate(t, g, 0, page("/a"), first, false)
	others(g, "/a", 2*time.Second, 2*time.Second)
	expectEstimate(t, g, 0, page("/a"), 2*time.Second, false)
	others(g, "/a", 2*time.Second, 2*time.Second, 2*time.Second)
	expectEstimate(t, g, 0, page("/a"), 2*time.Second, true)
	others(g, "/a", 4*time.Second)
	if got, _, _ := g.Of(at(0), page("/a")); got <= 2400*time.Millisecond {
		t.Errorf("after a more expensive one: %s, want more than the mean, 2.4s", got)
	}
}

// TestOneLongAnswer: a single long answer doesn't make all short requests of its kind look long. Requests that always
// take long still get long guesses.
func TestOneLongAnswer(t *testing.T) {
	g := newEstimator()
	for i := range 50 {
		for shape, takes := range map[string]time.Duration{"/ajax": 10 * time.Millisecond, "/grew": 10 * time.Millisecond, "/export": time.Minute} {
			g.Learn(at(0), Kind{Shape: shape, Client: fmt.Sprint(i)}, takes, 0)
		}
	}
	others(g, "/ajax", 20*time.Second)
	if got, _, _ := g.Of(at(0), page("/ajax")); got > 250*time.Millisecond {
		t.Errorf("%s after one long answer", got)
	}
	for i := range 50 {
		g.Learn(at(0), Kind{Shape: "/grew", Client: fmt.Sprint(i)}, time.Minute, 0)
	}
	others(g, "/new", time.Minute, time.Minute, time.Minute)
	for _, shape := range []string{"/export", "/grew", "/new"} {
		if got, _, _ := g.Of(at(0), page(shape)); got < 30*time.Second {
			t.Errorf("%s: %s after many long answers", shape, got)
		}
	}
	for i := range 200 { // cached for strangers
		g.Learn(at(0), Kind{Shape: "/cart", Client: fmt.Sprint(i)}, 10*time.Millisecond, 0)
		if i >= 100 && i%20 == 0 {
			g.Learn(at(0), Kind{Shape: "/cart", Client: fmt.Sprint("person ", i), Known: true}, 20*time.Second, 0)
		}
	}
	if got, _, _ := g.Of(at(0), Kind{Shape: "/cart", Client: "new person", Known: true}); got < 10*time.Second {
		t.Errorf("%s for a known client, although strangers' pages are short", got)
	}
}

// TestGuessOfURLs checks that URLs distinguished by a parameter get their own guesses, whatever others cost,
// and that other URLs don't.
func TestGuessOfURLs(t *testing.T) {
	g := newEstimator()
	const shape = "/index.php?page&n"
	for i := range 10 * least {
		who := fmt.Sprint("other ", i)
		g.Learn(at(0), Kind{Shape: shape, URL: fmt.Sprint("/index.php?page=search&n=", i), Client: who}, 400*time.Millisecond, 0)
		g.Learn(at(0), Kind{Shape: shape, URL: fmt.Sprint("/index.php?page=home&n=", -i), Client: who}, 20*time.Millisecond, 0)
	}
	expectEstimate(t, g, 0, Kind{Shape: shape, URL: "/index.php?page=search&n=x", Client: "me"}, 400*time.Millisecond, true)
	expectEstimate(t, g, 0, Kind{Shape: shape, URL: "/index.php?n=x&page=home", Client: "me"}, 20*time.Millisecond, true)
	for _, url := range []string{
		"/index.php?page=other", "/index.php?&&&", "/index.php?a&b&c&d&page=home", "/index.php?page=home&" + string(make([]byte, longestURL)),
	} {
		if got, _, sure := g.Of(at(0), Kind{Shape: shape, URL: url, Client: "me"}); got < 200*time.Millisecond || !sure {
			t.Errorf("%.40q: %s, want at least the mean of its shape, 210ms", url, got)
		}
	}
	for i := range least {
		g.Learn(at(0), Kind{Shape: shape, URL: "/index.php?page=rare", Client: fmt.Sprint("other ", i)}, time.Second, 0)
	}
	expectEstimate(t, g, 0, Kind{Shape: shape, URL: "/index.php?page=rare", Client: "me"}, time.Second, true)
}

// TestUntried checks that a request that is often made and has never been answered isn't treated like others of its
// shape until it is answered.
func TestUntried(t *testing.T) {
	g := newEstimator()
	for i := range least {
		g.Learn(at(0), Kind{Shape: "/index.php?page", URL: "/index.php?page=search", Client: fmt.Sprint(i)}, 400*time.Millisecond, 0)
	}
	home := Kind{Shape: "/index.php?page", URL: "/index.php?page=home", Client: "me"}
	for i := range least + 1 {
		if _, _, sure := g.Of(at(0), home); sure != (i < least) {
			t.Errorf("asked %d times: sure %t", i, sure)
		}
		g.Ask(at(0), home)
	}
	for i := range least {
		g.Learn(at(0), Kind{Shape: home.Shape, URL: home.URL, Client: fmt.Sprint(i)}, 20*time.Millisecond, 0)
	}
	expectEstimate(t, g, 0, home, 20*time.Millisecond, true)
}

// TestSentAwayIsNotUntried: a crawler whose requests are redirected, and that doesn't come back, shows nothing
// about the pages that it requested.
func TestSentAwayIsNotUntried(t *testing.T) {
	g := newEstimator()
	others(g, "/page?n", 20*time.Millisecond, 20*time.Millisecond, 20*time.Millisecond)
	k := Kind{Shape: "/page?n", URL: "/page?n=1", Client: "me"}
	for range 2 * least {
		g.Ask(at(0), k)
		g.Unask(k)
	}
	expectEstimate(t, g, 0, k, 20*time.Millisecond, true)
	for range least {
		g.Ask(at(0), k)
	}
	if _, _, sure := g.Of(at(0), k); sure {
		t.Error("often requested, never answered, but still sure")
	}
}

// TestUntriedByAKnownClient checks that a client's own cheap answers for a shape don't vouch for a parameter
// without any answer. Otherwise a client could train the shape first, and then request expensive pages.
func TestUntriedByAKnownClient(t *testing.T) {
	g := newEstimator()
	for i := range 2 * least {
		g.Learn(at(0), Kind{Shape: "/search?x", URL: fmt.Sprint("/search?x=cheap", i), Client: "me"}, 2*time.Millisecond, 0)
	}
	dear := Kind{Shape: "/search?x", URL: "/search?x=dear", Client: "me"}
	for i := range least + 1 {
		if _, _, sure := g.Of(at(0), dear); sure != (i < least) {
			t.Errorf("asked %d times, never answered: sure %t", i, sure)
		}
		g.Ask(at(0), dear)
	}
}

// TestAnsweredIsTried checks that a client that requests one page now and then, and is answered each time,
// never counts as requesting untried pages.
func TestAnsweredIsTried(t *testing.T) {
	g := newEstimator()
	others(g, "/page?n", 20*time.Millisecond, 20*time.Millisecond, 20*time.Millisecond)
	k := Kind{Shape: "/page?n", URL: "/page?n=1", Client: "me"}
	for range 2 * least {
		g.Ask(at(0), k)
		expectEstimate(t, g, 0, k, 20*time.Millisecond, true)
		g.Learn(at(0), k, 20*time.Millisecond, 0)
	}
}

// perClientKey returns the key under which the answers to one client's requests of a kind are stored.
func perClientKey(g *Estimator, k Kind) uint64 {
	var q question
	g.look(at(0), &k, &q)
	return mix(q.client, q.feature)
}

// TestGuessBeforeTheEnd checks the effect of a running request on its client's guesses: for a while, its cost is the
// minimum, but it makes no guess sure.
func TestGuessBeforeTheEnd(t *testing.T) {
	g := newEstimator()
	k := Kind{Shape: "/a", Client: "me"}
	g.AtLeast(at(1), k, time.Second, 0)
	expectEstimate(t, g, 1, k, time.Second, false)
	g.AtLeast(at(1), k, time.Second/2, 0)
	expectEstimate(t, g, 1, k, time.Second, false)
	expectEstimate(t, g, 11, k, first+(time.Second-first)/2, false) // it fades, because a refused client gets no answers
	g.AtLeast(at(1), Kind{Shape: "/light", Client: "me"}, time.Millisecond, 0)
	expectEstimate(t, g, 1, Kind{Shape: "/light", Client: "me"}, first, false)
	expectEstimate(t, g, 1, page("/a"), time.Second, false) // there is no better estimate
	expectEstimate(t, g, 61, page("/a"), first, false)
	for range least {
		g.Learn(at(2), k, 10*time.Millisecond, 0)
	}
	was, _, _ := g.Of(at(2), k)
	g.AtLeast(at(2), k, 3*was, 0) // a kind with answers is corrected by the next answer
	expectEstimate(t, g, 2, k, was, true)
}

// TestGuessOfTheUnknown checks that an unknown shape is treated like the average of all shapes.
func TestGuessOfTheUnknown(t *testing.T) {
	g := newEstimator()
	for i := range 1000 {
		others(g, fmt.Sprint("/known/", i), time.Second, time.Second, time.Second)
	}
	for i := range 100 {
		expectEstimate(t, g, 0, page(fmt.Sprint("/unknown/", i)), time.Second, false)
	}
}

// TestInventedKindsStayExpensive: for a while, requests of new kinds are expected to cost as much as the latest of
// them. Other kinds and families with cheap answers aren't affected.
func TestInventedKindsStayExpensive(t *testing.T) {
	g := newEstimator()
	for i := range leastNovel {
		testkit.Same(t, 0, g.Running(at(0), page(fmt.Sprintf("/%d/invented", i))), "after %d answers", i)
		g.Learn(at(0), page(fmt.Sprintf("/%d/invented", i)), 500*time.Millisecond, 0)
	}
	for at0, want := range map[float64]time.Duration{0: 500 * time.Millisecond, 10: 250 * time.Millisecond} {
		testkit.Same(t, want, g.Running(at(at0), page("/x/invented")), "after %g s", at0)
	}
	for range 30 {
		others(g, "/cheap", 10*time.Millisecond, 10*time.Millisecond, 10*time.Millisecond)
	}
	if got := g.Running(at(0), page("/cheap")); got > 20*time.Millisecond {
		t.Errorf("a kind with answers: %s", got)
	}
	if got := g.Running(at(0), page("/x/invented")); got < 400*time.Millisecond {
		t.Errorf("after many answers to another kind: %s", got)
	}
	for i := range least {
		g.Learn(at(0), page(fmt.Sprint("/wiki/", i)), 20*time.Millisecond, 0)
	}
	if got := g.Running(at(0), page("/wiki/x")); got > 20*time.Millisecond {
		t.Errorf("a kind of a cheap family: %s", got)
	}
	g.Learn(at(0), page("/long/invented"), time.Hour, 0)
	if got := g.Running(at(0), page("/x/invented")); got > time.Second {
		t.Errorf("after one that took an hour: %s", got)
	}
}

// TestInventedKindsPushNoneOut floods the sketch with shapes and URLs that are requested once, while the site's
// real ones are requested now and then.
func TestInventedKindsPushNoneOut(t *testing.T) {
	g, invented := newEstimator(), 200_000
	if testing.Short() { // the race detector finds nothing here, because only one goroutine makes requests
		invented = 40_000
	}
	for i := range invented {
		g.Ask(at(0), Kind{Shape: fmt.Sprint("/invented/", i), URL: fmt.Sprint("/invented/", i, "?x"), Client: fmt.Sprint(i)})
		g.Learn(at(0), Kind{Shape: fmt.Sprint("/invented/", i), URL: fmt.Sprint("/invented/", i, "?x"), Client: fmt.Sprint(i)}, time.Second, 0)
		if i%100 == 0 {
			g.Ask(at(0), page("/real"))
			g.Learn(at(0), Kind{Shape: "/real", Client: fmt.Sprint("reader ", i)}, 20*time.Millisecond, 0)
		}
	}
	expectEstimate(t, g, 0, page("/real"), 20*time.Millisecond, true)
	for i := range g.kinds.shards {
		s := &g.kinds.shards[i]
		if len(s.kinds) != kindsPerShard || len(s.index) != kindsPerShard || len(s.count) != kindsPerShard {
			t.Errorf("shard %d has %d kinds, %d in its index", i, len(s.kinds), len(s.index))
		}
	}
}

// TestGuessConcurrently is for the race detector.
func TestGuessConcurrently(t *testing.T) {
	g := newEstimator()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 1000 {
				k := Kind{Shape: fmt.Sprint("/", (i+n)%100), URL: "/x", Client: fmt.Sprint(n % 10)}
				g.Learn(at(0), k, time.Millisecond, 0)
				g.AtLeast(at(0), k, time.Microsecond, 0)
				if got, _, _ := g.Of(at(0), k); got < time.Millisecond-time.Microsecond || got > time.Millisecond+time.Microsecond {
					t.Errorf("guess %s", got)
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkGuess(b *testing.B) {
	g := NewEstimator()
	kinds := make([]Kind, 10_000)
	for i := range kinds {
		kinds[i] = Kind{Shape: fmt.Sprint("/shape/", i%300), URL: fmt.Sprint("/shape/", i), Client: fmt.Sprint("10.0.0.", i%1000)}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		k := kinds[i%len(kinds)]
		if _, _, sure := g.Of(epoch, k); sure || i >= 0 {
			g.Learn(epoch, k, time.Millisecond, 0)
		}
	}
}
