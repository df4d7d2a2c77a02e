package cpuaccount

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const (
	article = "/w?title"
	history = "/w?title&action"
)

func articleOf(who string, known bool, n int) Kind {
	return Kind{Shape: article, URL: fmt.Sprint("/w?title=", n), Client: who, Known: known}
}

func historyOf(who string, known bool, n int) Kind {
	return Kind{Shape: history, URL: fmt.Sprintf("/w?title=%d&action=history", n), Client: who, Known: known}
}

// wiki is a site where known people read articles, a few of them also histories,
// and a crawler, a new address for each page, takes all.
func wiki(people, crawled int) *Estimator {
	g := newEstimator()
	for i := range people {
		who := fmt.Sprint("person ", i)
		for n := range 5 {
			g.Learn(at(0), articleOf(who, true, (i*7+n)%100), 20*time.Millisecond, 0)
		}
		if i%30 == 0 {
			g.Learn(at(0), historyOf(who, true, i), 300*time.Millisecond, 0)
		}
	}
	for i := range crawled {
		g.Learn(at(0), articleOf(fmt.Sprint("robot ", i), false, i), 20*time.Millisecond, 0)
		g.Learn(at(0), historyOf(fmt.Sprint("robot ", -i), false, i), 300*time.Millisecond, 0)
	}
	return g
}

func TestReputation(t *testing.T) {
	g := wiki(100, 2000)
	for _, c := range []struct {
		name        string
		k           Kind
		least, most float64
		feature     string
	}{
		{"an article", articleOf("new", false, 3), 0.7, 1, ""},
		{"an article that nobody read", articleOf("new", false, 1e6), 0.8, 1, article},
		{"a history", historyOf("new", false, 3), 0, 0.1, history},
		{"a history that nobody read", historyOf("new", false, 1e6), 0, 0.1, history},
		{"an article with a robot's parameter", Kind{Shape: history, URL: "/w?action=history;title=3"}, 0, 0.1, history},
		{"what nobody asked for", Kind{Shape: "/new", URL: "/new?a=b"}, 0.5, 0.5, "/new"},
	} {
		r := g.Explain(c.k)
		if r.Value < c.least || r.Value > c.most || r.Value != g.Reputation(c.k) || c.feature != "" && r.Feature != c.feature && r.Feature != "action=history" {
			t.Errorf("%s: %+v", c.name, r)
		}
		if r.Rare != (c.least == c.most) {
			t.Errorf("%s: rare: %v", c.name, r.Rare)
		}
	}
	if r := g.Explain(articleOf("new", false, 1e6)); math.Abs(r.Readers-100) > 60 || math.Abs(r.People-100) > 3 ||
		math.Abs(r.Strange.Seconds()-40) > 0.01 || r.Strangers != 640*time.Second {
		t.Errorf("%+v", r)
	}
	if r := newEstimator().Reputation(articleOf("new", false, 1)); r != 0.5 {
		t.Errorf("of a site that nobody came to: %g", r)
	}
}

// TestOneHeadMakesNoReputation has one that is known ask for histories all the
// time, on each of many days.
func TestOneHeadMakesNoReputation(t *testing.T) {
	g := wiki(100, 2000)
	was := g.Reputation(historyOf("new", false, 1))
	alone := newEstimator()
	for i := range 5000 {
		k := historyOf(fmt.Sprint("session ", i), true, i)
		k.Address = "192.0.2.1"
		g.Learn(at(0), k, time.Second, 0)
		alone.Learn(at(float64(i/100)*86400), k, time.Second, 0)
	}
	if r := g.Reputation(historyOf("new", false, 1)); math.Abs(r-was) > 0.02 {
		t.Errorf("one of a hundred took it from %g to %g", was, r)
	}
	if r := alone.Explain(historyOf("new", false, 1)); r.Value != 0.5 {
		t.Errorf("of one alone, after 50 days: %+v", r)
	}
}

// TestHeadsMoveInProportion has more and more known crawlers ask for histories:
// they are to count for no more than the part of the known that they are.
func TestHeadsMoveInProportion(t *testing.T) {
	g := wiki(100, 2000)
	for crawlers := 1; crawlers <= 50; crawlers++ {
		for i := range 20 {
			g.Learn(at(0), historyOf(fmt.Sprint("crawler ", crawlers), true, i), time.Second, 0)
		}
		share := float64(crawlers+4) / float64(crawlers+100)
		// Its strangers' time is nine tenths of all, so that as many heads make as many parts.
		if r := g.Reputation(historyOf("new", false, 1)); r > 1.5*share+0.05 {
			t.Errorf("%d crawlers of %d known: %g", crawlers, crawlers+100, r)
		}
	}
	if r := g.Reputation(articleOf("new", false, 1)); r < 0.7 {
		t.Errorf("articles: %g", r)
	}
}

// TestStrangersSpoilByWorkOnly checks that strangers cannot make what all people
// read worse than what is not known at all, wherever they work.
func TestStrangersSpoilByWorkOnly(t *testing.T) {
	g := wiki(100, 2000)
	for i := range 100_000 {
		g.Learn(at(0), articleOf(fmt.Sprint("robot ", i), false, i), 20*time.Millisecond, 0)
	}
	a, h := g.Reputation(articleOf("new", false, 1)), g.Reputation(historyOf("new", false, 1))
	if a < 0.45 || h > a {
		t.Errorf("articles %g, histories %g", a, h)
	}
}

func TestReputationFades(t *testing.T) {
	g := wiki(100, 2000)
	for day := range 10 {
		g.Learn(at(float64(day)*86400), Kind{Shape: "/other", Client: "robot"}, time.Millisecond, 0)
		h, a := g.Explain(historyOf("new", false, 1)), g.Explain(articleOf("new", false, 1))
		want := 600 * math.Exp2(-float64(day))
		if math.Abs(h.Strange.Seconds()-want) > want/100 || h.Strange > h.Strangers {
			t.Errorf("day %d: %+v", day, h)
		}
		if day < 3 && !(h.Value < 0.15 && a.Value > 0.7) {
			t.Errorf("day %d: articles %g, histories %g", day, a.Value, h.Value)
		}
		if day == 9 && (math.Abs(a.Value-0.5) > 0.2 || h.Value < 0.03) {
			t.Errorf("after %d days: articles %g, histories %g", day, a.Value, h.Value)
		}
	}
}

// TestReadersAreCounted checks the count of heads, however often they come.
func TestReadersAreCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		people := rapid.IntRange(1, 3000).Draw(t, "people")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		heads := make([]uint64, people)
		for i := range heads {
			heads[i] = random.Uint64()
		}
		var v visits
		var s site
		for range 3 {
			for _, h := range heads {
				by := asker{known: true, head: h}
				v.learn(&by, 1)
				s.learn(&by, time.Second)
			}
		}
		// 64 bits tell a few hundred apart; who comes again and again is counted a few times.
		if got := float64(v.people); got < 0.4*float64(people)-3 || got > 6*float64(people)+10 {
			t.Fatalf("%d people: %g readers", people, got)
		}
		if got := float64(s.people.Load()) / 1000; math.Abs(got-float64(people)) > 0.1*float64(people)+3 {
			t.Fatalf("%d people: %g of the site", people, got)
		}
		if v.strange != 0 || s.strange.Load() != 0 {
			t.Fatal("known people are strangers")
		}
	})
}

// TestReputationConcurrently is for the race detector, over the turn of a day.
func TestReputationConcurrently(t *testing.T) {
	g := newEstimator()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 500 {
				g.Learn(at(float64(n)*300), articleOf(fmt.Sprint(i, n%10), i%2 == 0, n), time.Millisecond, 0)
				if r := g.Reputation(articleOf("", false, n)); !(r > 0 && r < 1) {
					t.Errorf("reputation %g", r)
				}
			}
		})
	}
	all.Wait()
}
