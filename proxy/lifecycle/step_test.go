package lifecycle

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// TestStepsAt: the CPU time at each step depends on the client. A page of 150 ms for which a person waits must
// not step down, but a crawler's page of 400 ms must, before half of it is done. If the client had more than
// its share, the last step comes at 200 ms at the latest. If it is within its share, each step comes at four
// times the CPU time of the previous one. Newcomers that returned with a pass step down like known clients
// while they are still strangers.
func TestStepsAt(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		verdict  limiter.Verdict
		standing float64
		passed   bool
		want     [steps]time.Duration
	}{
		"a stranger":                {limiter.Verdict{Ahead: true, CostMultiplier: 2}, 1, false, [steps]time.Duration{25 * ms, 100 * ms, 200 * ms}},
		"with a pass":               {limiter.Verdict{Ahead: true, CostMultiplier: 2}, 1, true, [steps]time.Duration{100 * ms, 400 * ms, 1600 * ms}},
		"a pass, known meanwhile":   {limiter.Verdict{Known: true, Ahead: true, CostMultiplier: 2}, 1, true, [steps]time.Duration{25 * ms, 100 * ms, 200 * ms}},
		"ahead, and in debt":        {limiter.Verdict{Ahead: true, CostMultiplier: 10}, 1, false, [steps]time.Duration{5 * ms, 20 * ms, 80 * ms}},
		"known, within its share":   {limiter.Verdict{Known: true, CostMultiplier: 2}, 1, false, [steps]time.Duration{100 * ms, 400 * ms, 1600 * ms}},
		"known, deep in debt":       {limiter.Verdict{Known: true, Ahead: true, CostMultiplier: 20}, 1, false, [steps]time.Duration{ms * 5 / 2, 10 * ms, 40 * ms}},
		"a person":                  {limiter.Verdict{Known: true, CostMultiplier: 2}, 4, false, [steps]time.Duration{400 * ms, 1600 * ms, 6400 * ms}},
		"a person who had too much": {limiter.Verdict{Known: true, Ahead: true, CostMultiplier: 4}, 8, false, [steps]time.Duration{ms * 25 / 2, 50 * ms, 200 * ms}},
		"who lies":                  {limiter.Verdict{Known: true, CostMultiplier: 2}, 0.5, false, [steps]time.Duration{50 * ms, 200 * ms, 800 * ms}},
	} {
		p := pace{&c.verdict, c.standing, c.passed}
		testkit.Same(t, c.want[0], p.firstStepAt(), "%s: the first step at", name)
		for i, at := range c.want {
			if before, then := p.step(at-1), p.step(at); before != i || then != i+1 {
				t.Errorf("%s: at %s from step %d to %d", name, at, before, then)
			}
		}
	}
}

// TestForeseen: a crawler's page that is known to be long yields from the beginning, a newcomer's yields less,
// and a person's not at all.
func TestForeseen(t *testing.T) {
	ahead := limiter.Verdict{Ahead: true, CostMultiplier: 2}
	for name, c := range map[string]struct {
		verdict limiter.Verdict
		guess   time.Duration
		guessed bool // whether the guess isn't sure
		want    int
	}{
		"a crawler's page":           {verdict: ahead, guess: 400 * time.Millisecond, want: 3},
		"a dear one":                 {verdict: ahead, guess: 5 * time.Second, want: 3},
		"a newcomer's":               {verdict: ahead, guess: 150 * time.Millisecond, want: 1},
		"a style sheet":              {verdict: ahead, guess: 2 * time.Millisecond},
		"who owes much":              {verdict: limiter.Verdict{Known: true, Ahead: true, CostMultiplier: 18}, guess: 100 * time.Millisecond, want: 3},
		"nobody knows what it costs": {verdict: ahead, guess: 400 * time.Millisecond, guessed: true},
		"known, within its share":    {verdict: limiter.Verdict{Known: true, CostMultiplier: 2}, guess: 5 * time.Second},
	} {
		l := Life{ticket: new(limiter.Ticket), Verdict: c.verdict, Guess: c.guess, sure: !c.guessed}
		testkit.Same(t, c.want, l.Step(l.Foreseen()), "%s: step", name)
	}
	if exempt := (&Life{Guess: time.Hour, sure: true}); exempt.Foreseen() != 0 || exempt.Step(time.Hour) != 0 || exempt.UntilStep(0) != noStep {
		t.Error("an exempt request stands back")
	}
}

// TestStepsOfSites: if a site has used more than its share, because others left some, all its pages yield from
// 25 ms on, including people's. A page that will surely be longer yields even from the beginning. But people's
// pages stay above those of the site's crawlers until they are long. A site with less than its share yields by
// at most one step.
func TestStepsOfSites(t *testing.T) {
	person := limiter.Verdict{Known: true, CostMultiplier: 2}
	crawler := limiter.Verdict{Ahead: true, CostMultiplier: 2}
	for _, c := range []struct {
		verdict              limiter.Verdict
		standing             float64
		used                 time.Duration
		ahead, alike, within int // steps if the site has more than its share, about its share, and less
	}{
		{person, 4, 25*time.Millisecond - 1, 0, 0, 0},
		{person, 4, 25 * time.Millisecond, 2, 0, 0},
		{person, 4, 200*time.Millisecond - 1, 2, 0, 0},
		{person, 4, 200 * time.Millisecond, 3, 0, 0},
		{person, 4, 6400 * time.Millisecond, 3, 3, 1},
		{crawler, 1, 25 * time.Millisecond, 3, 1, 1},
		{crawler, 1, 100 * time.Millisecond, 3, 2, 1},
		{limiter.Verdict{Ahead: true, CostMultiplier: 18}, 1, 3 * time.Millisecond, 1, 1, 1},
	} {
		ahead, within := c.verdict, c.verdict
		ahead.SiteAhead, within.SiteWithin = true, true
		for v, want := range map[*limiter.Verdict]int{&ahead: c.ahead, &c.verdict: c.alike, &within: c.within} {
			testkit.Same(t, want, (pace{Verdict: v, standing: c.standing}).step(c.used), "%+v: step at %s", *v, c.used)
		}
	}
	for _, c := range []struct {
		verdict limiter.Verdict
		want    int // from the beginning
	}{{person, steps - 1}, {crawler, steps}} {
		c.verdict.SiteAhead = true
		l := Life{ticket: new(limiter.Ticket), Verdict: c.verdict, Guess: 150 * time.Millisecond, sure: true}
		if got := l.Step(l.Foreseen()); got != c.want || l.UntilStep(0) != firstStep {
			t.Errorf("%+v: a page of 150 ms begins at step %d, want %d; else it takes the first in %s", c.verdict, got, c.want, l.UntilStep(0))
		}
	}
	crawler.SiteWithin = true
	l := Life{ticket: new(limiter.Ticket), Verdict: crawler}
	if l.UntilStep(0) != firstStep || l.UntilStep(firstStep) != noStep {
		t.Errorf("there is another step, in %s", l.UntilStep(firstStep))
	}
}

// TestStepsOnlyGoDown: for any client and page, no step is taken back as more CPU time is used, and the next
// one comes exactly when it was predicted.
func TestStepsOnlyGoDown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.Bool()
		l := Life{ticket: new(limiter.Ticket), sure: draw.Draw(t, "sure"), passed: draw.Draw(t, "passed"), Verdict: limiter.Verdict{
			Known: draw.Draw(t, "known"), Ahead: draw.Draw(t, "ahead"), SiteAhead: draw.Draw(t, "siteAhead"), SiteWithin: draw.Draw(t, "siteWithin"),
			CostMultiplier: rapid.SampledFrom([]float32{0, 2, 2.5, 6, 18}).Draw(t, "price"),
		}}
		l.Who.Standing = rapid.Float64Range(0, 8).Draw(t, "standing")
		l.Guess = time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "guess"))
		if f := l.Foreseen(); f < 0 || f > l.Guess {
			t.Fatalf("of %s %s count from the beginning", l.Guess, f)
		}
		used := time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "used"))
		more := time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "more"))
		step, until := l.Step(used), l.UntilStep(used)
		switch {
		case step < 0 || step > steps || l.Step(used+more) < step:
			t.Fatalf("step %d at %s, %d at %s", step, used, l.Step(used+more), used+more)
		case until <= 0:
			t.Fatalf("the step after %d, at %s, is due in %s", step, used, until)
		case until == noStep && l.Step(used+noStep) != step:
			t.Fatalf("there is a step after %d", step)
		case until != noStep && (l.Step(used+until-1) != step || l.Step(used+until) == step):
			t.Fatalf("step %d at %s is not over just in %s", step, used, until)
		}
	})
}
