package limiter

import (
	"math"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestOneCrawl plays the crawl of the package documentation, step by step.
func TestOneCrawl(t *testing.T) {
	const page = 800 * time.Millisecond
	crawler := func(m Mode) (*world, func() *Ticket, func(time.Duration, float64)) {
		w := newWorld(one(m, Budget{CPUs: 0.4, Burst: second}))
		ask := func() *Ticket { return w.Arrive(w.now, Arrival{Client: host("a"), Guess: page}) }
		expect := func(at time.Duration, want float64) {
			t.Helper()
			w.run(at - w.elapsed())
			if got := credit(t, w, "a"); math.Abs(got-want) > 1e-6 {
				t.Errorf("%v, at %v: level %v, want %v", m, at, got, want)
			}
		}
		return w, ask, expect
	}
	decided := func(x *Ticket) bool { return testkit.Ready(x.Decided()) }

	w, ask, expect := crawler(Cap)
	first := ask()
	expect(0, 0.2)
	second := ask()
	expect(0, -0.6)
	third := ask()
	if !decided(first) || !decided(second) || decided(third) {
		t.Error("only the third page must wait")
	}
	w.run(page)
	w.Settle(w.now, first, page)
	w.Settle(w.now, second, page)
	expect(page, -0.28)
	expect(1500*time.Millisecond, -0.8)
	if !decided(third) {
		t.Error("the third page waits for longer than 1.5 s")
	}
	expect(2*time.Second, -0.6)
	fourth := ask()
	expect(3500*time.Millisecond, -0.8)
	if !decided(fourth) {
		t.Error("the fourth page waits for longer than 1.5 s")
	}

	w, ask, _ = crawler(Cooperative)
	ask()
	ask()
	held := ask()
	w.run(page)
	if got := w.elapsed() + w.Settle(w.now, held, page); got.Round(time.Millisecond) != 3500*time.Millisecond {
		t.Errorf("the third response is held until %v, want 3.5s", got)
	}
}
