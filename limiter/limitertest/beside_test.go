package limitertest

import (
	"fmt"
	"testing"

	"tempomat/limiter"
)

// pair is what a fair site has beside one that is only observed.
type pair struct {
	observed int     // clients of the observed site, which always ask
	cost     float64 // of their pages, CPU-seconds
	share    float64 // of the fair site; the observed one's is 1
	crawl    int     // clients of the fair site that always ask, for the pages of its people
	hog      bool    // one client of the fair site asks for twenty dear pages at a time
}

func (c pair) clients() []*Client {
	cs := join(saturating(0, c.observed, c.cost), called("people", apart(1<<23, of(1, thinking(people(10))))))
	if c.crawl > 0 {
		cs = join(cs, saturating(1, c.crawl, 0.15))
	}
	if c.hog {
		cs = join(cs, called("b", of(1, lone(20))))
	}
	return cs
}

// TestBesideAnObservedSite: nothing holds back what an observed site has. Beside it a fair one
// gets as much as if it were observed too, or its share if that is less; and its people are
// served as soon as then, or as if both were fair.
func TestBesideAnObservedSite(t *testing.T) {
	notWithRaceDetector(t)
	for _, c := range []pair{
		{3, 0.15, 1, 0, false}, {40, 0.15, 1, 0, false},
		{3, 0.15, 1, 40, false}, {40, 0.15, 1, 40, false},
		{3, 0.15, 100, 40, false}, {14, 0.15, 100, 40, false}, {40, 0.15, 100, 40, false},
		{3, 2, 1, 40, false}, {1, 2, 100, 0, true}, {40, 0.15, 1, 0, true},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			play := func(observed, fair limiter.Mode) *World {
				sites := shares(1, c.share)
				sites[0].Mode, sites[1].Mode = observed, fair
				w := playSites(t, sited("beside", sites, c.clients))
				t.Logf("%s and %s: observed %.3f, fair %.3f; people p50 %.0f ms, p95 %.0f ms, failed %.3f", observed, fair,
					w.Used("a"), w.Used("b", "people"), w.Percentile("people", .5), w.Percentile("people", .95), w.Failed("people"))
				return w
			}
			w, open, fair := play(limiter.Observe, limiter.Fair), play(limiter.Observe, limiter.Observe), play(limiter.Fair, limiter.Fair)
			least := min(c.share/(1+c.share), open.Used("b", "people"))
			if c.hog { // one client may not have all of its site's
				least = open.Used("people")
			}
			if got := w.Used("b", "people"); got < 0.75*least {
				t.Errorf("the fair site got %.3f; observed, too, or by its share it had %.3f", got, least)
			}
			if got := w.Used("a"); got < 0.95*open.Used("a") {
				t.Errorf("the observed site got %.3f, and %.3f if nobody is held back", got, open.Used("a"))
			}
			for _, p := range []float64{.5, .95} {
				if got, most := w.Percentile("people", p), max(open.Percentile("people", p), fair.Percentile("people", p)); got > 1.5*most {
					t.Errorf("the fair site's people waited for %.0f ms, at a part of %g; otherwise for %.0f ms", got, p, most)
				}
			}
			if got, most := w.Failed("people"), max(open.Failed("people"), fair.Failed("people")); got > most+0.05 {
				t.Errorf("%.3f of the fair site's people failed, otherwise %.3f", got, most)
			}
		})
	}
}
