package lifecycle

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"tempomat/limiter"
)

// TestFirstStepAt holds who asks against what a request may use until its first step. A page
// of 150 ms for which a person waits must not step down, and a crawler's of 400 ms must,
// before half of it is done.
func TestFirstStepAt(t *testing.T) {
	const person, crawler = 150 * time.Millisecond, 200 * time.Millisecond
	for name, c := range map[string]struct {
		verdict  limiter.Verdict
		standing float64
		want     time.Duration
	}{
		"a stranger":                        {limiter.Verdict{Ahead: true, CostMultiplier: 2}, 1, 25 * time.Millisecond},
		"a stranger with a crawler's agent": {limiter.Verdict{Ahead: true, CostMultiplier: 6}, 1, 8333 * time.Microsecond},
		"known, within its share":           {limiter.Verdict{Known: true, CostMultiplier: 2}, 1, 100 * time.Millisecond},
		"the same of a crawler's agent":     {limiter.Verdict{Known: true, CostMultiplier: 6}, 1, 33333 * time.Microsecond},
		"known, ahead of its share":         {limiter.Verdict{Known: true, Ahead: true, CostMultiplier: 2}, 1, 25 * time.Millisecond},
		"known, deep in debt":               {limiter.Verdict{Known: true, Ahead: true, CostMultiplier: 18}, 1, 2777 * time.Microsecond},
		"a person":                          {limiter.Verdict{Known: true, CostMultiplier: 2}, 4, 400 * time.Millisecond},
		"a person with a crawler's agent":   {limiter.Verdict{Known: true, CostMultiplier: 6}, 8, 266666 * time.Microsecond},
		"a person who had too much":         {limiter.Verdict{Known: true, Ahead: true, CostMultiplier: 4}, 8, 12500 * time.Microsecond},
		"who lies":                          {limiter.Verdict{Known: true, CostMultiplier: 2}, 0.5, 50 * time.Millisecond},
		"not judged":                        {limiter.Verdict{Known: true}, 0, 50 * time.Millisecond},
	} {
		p := pace{Verdict: &c.verdict, standing: c.standing}
		got := p.firstStepAt()
		if got.Truncate(time.Microsecond) != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		switch isPerson := c.standing >= 2 && !c.verdict.Ahead; {
		case isPerson && p.step(person) != 0:
			t.Errorf("%s: a page of %s steps down", name, person)
		case !isPerson && p.step(crawler) == 0:
			t.Errorf("%s: a page of %s does not step down", name, crawler)
		}
	}
}

// TestSteps goes down one step after the other, and tells when the next one is due.
func TestSteps(t *testing.T) {
	l := Life{ticket: new(limiter.Ticket), Verdict: limiter.Verdict{Ahead: true, CostMultiplier: 2}}
	was, due := 0, l.UntilStep(0)
	for used := time.Duration(0); used < 2*time.Second; used += time.Millisecond {
		step := l.Step(used)
		switch {
		case step < was || step > was+1:
			t.Fatalf("from step %d to %d at %s", was, step, used)
		case step != was && used != due:
			t.Errorf("step %d at %s, was to be at %s", step, used, due)
		}
		if step != was {
			due = used + l.UntilStep(used)
		}
		was = step
	}
	if was != steps || l.UntilStep(time.Second) != noStep {
		t.Errorf("%d steps, the next one in %s", was, l.UntilStep(time.Second))
	}
	if exempt := new(Life); exempt.Step(time.Hour) != 0 || exempt.UntilStep(0) != noStep {
		t.Error("an exempt request steps down")
	}
}

// TestForeseen has a crawler's page that is known to be long stand back from the beginning, a
// newcomer's less far, and a person's not at all.
func TestForeseen(t *testing.T) {
	ahead := limiter.Verdict{Ahead: true, CostMultiplier: 2}
	for name, c := range map[string]struct {
		verdict limiter.Verdict
		guess   time.Duration
		guessed bool // and no more: it is not sure
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
		if got := l.Step(l.Foreseen()); got != c.want {
			t.Errorf("%s: step %d, want %d", name, got, c.want)
		}
	}
	if exempt := (&Life{Guess: time.Hour, sure: true}); exempt.Foreseen() != 0 {
		t.Error("an exempt request stands back")
	}
}

// TestStepsOfSites: where others leave a site more than its share, all its pages give way to theirs from
// 25 ms on, people's, too, and one that is sure to be longer does from the beginning. But its people's stay
// above its crawlers' until they are long. Who has less than its share gives way by one step at most.
func TestStepsOfSites(t *testing.T) {
	person := limiter.Verdict{Known: true, CostMultiplier: 2}
	crawler := limiter.Verdict{Ahead: true, CostMultiplier: 2}
	for _, c := range []struct {
		verdict              limiter.Verdict
		standing             float64
		used                 time.Duration
		ahead, alike, within int // steps, where its site has more than its share, about as much, and less
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
			if got := (pace{Verdict: v, standing: c.standing}).step(c.used); got != want {
				t.Errorf("%+v: step %d at %s, want %d", *v, got, c.used, want)
			}
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

// TestNewcomersWithAPass: whoever came back with one steps down as people who are known do, as long as it is a stranger.
func TestNewcomersWithAPass(t *testing.T) {
	for name, c := range map[string]struct {
		verdict limiter.Verdict
		passed  bool
		want    time.Duration // until the first step
		last    time.Duration // used as it takes the last one
	}{
		"without a pass":        {limiter.Verdict{Ahead: true, CostMultiplier: 2}, false, 25 * time.Millisecond, 200 * time.Millisecond},
		"with one":              {limiter.Verdict{Ahead: true, CostMultiplier: 2}, true, 100 * time.Millisecond, 1600 * time.Millisecond},
		"it is known meanwhile": {limiter.Verdict{Known: true, Ahead: true, CostMultiplier: 2}, true, 25 * time.Millisecond, 200 * time.Millisecond},
	} {
		p := pace{&c.verdict, 1, c.passed}
		if p.firstStepAt() != c.want || p.step(c.last-1) != steps-1 || p.step(c.last) != steps {
			t.Errorf("%s: %s, and %d and %d at %s", name, p.firstStepAt(), p.step(c.last-1), p.step(c.last), c.last)
		}
	}
}

// TestLastStep: whoever had more than its share is at the last step from 200 ms on; who is within
// it has four times as long as for the step before.
func TestLastStep(t *testing.T) {
	for _, c := range []struct {
		verdict limiter.Verdict
		want    [steps]time.Duration
	}{
		{limiter.Verdict{Ahead: true, CostMultiplier: 2}, [steps]time.Duration{25 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond}},
		{limiter.Verdict{Ahead: true, CostMultiplier: 10}, [steps]time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 80 * time.Millisecond}},
		{limiter.Verdict{Known: true, CostMultiplier: 2}, [steps]time.Duration{100 * time.Millisecond, 400 * time.Millisecond, 1600 * time.Millisecond}},
	} {
		for i, at := range c.want {
			p := pace{Verdict: &c.verdict, standing: 1}
			before, then := p.step(at-1), p.step(at)
			if before != i || then != i+1 {
				t.Errorf("%+v: at %s from step %d to %d", c.verdict, at, before, then)
			}
		}
	}
}

// TestStepsOnlyGoDown: whoever asks, however dear its page, no step is taken back as more is used, and the next one is
// taken just when it was foretold.
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
