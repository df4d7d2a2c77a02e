//go:build accept

package redis

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// greedy asks for all that it can get until the context ends.
func (c *sidecar) greedy(ctx context.Context, spent *atomic.Int64, cost, takes time.Duration) {
	for {
		t := c.Arrive(time.Now(), limiter.Arrival{Client: client("greedy"), Guess: cost})
		select {
		case <-t.Decided():
		case <-ctx.Done():
			c.Leave(time.Now(), t)
			return
		}
		time.Sleep(takes)
		c.Settle(time.Now(), t, cost)
		c.Leave(time.Now(), t)
		spent.Add(int64(cost))
	}
}

// TestAcceptThreeSidecars has one client spread over three sidecars take all that
// it can get for a minute: in the long run that is what one sidecar allows.
func TestAcceptThreeSidecars(t *testing.T) {
	s := startServer(t)
	o := s.options()
	o.Timeout = 0
	cars := [3]*sidecar{startSidecar(t, o), startSidecar(t, o), startSidecar(t, o)}
	linked(t, cars[0], cars[1])
	linked(t, cars[1], cars[2])
	const lasts, settles = 60 * time.Second, 10 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), settles+lasts)
	defer cancel()
	var spent atomic.Int64
	var clients sync.WaitGroup
	began := time.Now()
	for _, car := range cars {
		for range 3 {
			clients.Go(func() { car.greedy(ctx, &spent, 20*time.Millisecond, 10*time.Millisecond) })
		}
	}
	worst := 0.0
	look := func(until time.Duration) float64 {
		for time.Since(began) < until {
			time.Sleep(time.Millisecond)
			allowed := testBurst + testRate*time.Since(began).Seconds()
			worst = max(worst, time.Duration(spent.Load()).Seconds()-allowed)
		}
		return time.Duration(spent.Load()).Seconds()
	}
	first := look(settles)
	overshoot := worst
	worst = 0
	second := look(settles + lasts)
	cancel()
	clients.Wait()
	rate := (second - first) / lasts.Seconds()
	t.Logf("%.4f CPU-s/s of %v in the long run (%+.1f %%); overshoot %.2f CPU-s at first, %.2f later",
		rate, testRate, 100*(rate/testRate-1), overshoot, worst)
	if rate < 0.97*testRate || rate > 1.03*testRate {
		t.Errorf("%v CPU-s/s, want %v within 3 %%", rate, testRate)
	}
	t.Logf("%+v", cars[0].sharer.State())
}

// TestAcceptLatency measures what a request takes in the limiter without a sharer,
// with one, and while Redis is away in each way.
func TestAcceptLatency(t *testing.T) {
	s := testkit.StartRedis(t)
	o := Options{Addresses: []string{s.Address}}
	alone := &sidecar{Limiter: limiter.New(time.Now(), testPolicy(), 1<<12, nil)}
	with := [2]*sidecar{startSidecar(t, o), startSidecar(t, o)}
	linked(t, with[0], with[1])
	for round := range 3 {
		for _, c := range []struct {
			name       string
			cars       [2]*sidecar
			away, back func()
		}{
			{"alone", [2]*sidecar{alone, alone}, func() {}, func() {}},
			{"Redis there", with, func() {}, func() {}},
			{"Redis stopped", with, s.Pause, s.Resume},
			{"Redis killed", with, s.Kill, s.Start},
		} {
			c.away()
			l := startLoad(c.cars)
			time.Sleep(3 * time.Second)
			quantiles := l.quantiles()
			l.end(t)
			c.back()
			if c.cars == with {
				linked(t, with[0], with[1])
			}
			t.Logf("%d %s: %s", round, c.name, quantiles)
		}
	}
}
