//go:build accept

package gossip

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tempomat/limiter"
	"tempomat/limiter/testkit"
)

// greed has a client ask all sidecars for more than it may have, in real time,
// until the context ends, and adds up what each lets through.
func greed(ctx context.Context, cars []*sidecar, spent []atomic.Int64) *sync.WaitGroup {
	var running sync.WaitGroup
	for i, c := range cars {
		running.Go(func() {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				<-tick.C
				for range 5 {
					if c.ask("greedy", testCost) {
						spent[i].Add(int64(testCost))
					}
				}
			}
		})
	}
	return &running
}

func sum(spent []atomic.Int64) (s float64) {
	for i := range spent {
		s += time.Duration(spent[i].Load()).Seconds()
	}
	return s
}

// TestAcceptOneLimit is TestOneLimitForAll with real sharers, in real time.
func TestAcceptOneLimit(t *testing.T) {
	for _, n := range []int{3, 5, 10} {
		r := newReal()
		var cars []*sidecar
		for range n {
			cars = append(cars, r.start(t))
		}
		together(t, cars...)
		const settles, lasts = 10 * time.Second, 30 * time.Second
		ctx, cancel := context.WithTimeout(context.Background(), settles+lasts)
		spent := make([]atomic.Int64, n)
		began, over := time.Now(), 0.0
		running := greed(ctx, cars, spent)
		look := func(until time.Duration) float64 {
			for time.Since(began) < until {
				time.Sleep(time.Millisecond)
				over = max(over, sum(spent)-testBurst-testRate*time.Since(began).Seconds())
			}
			return sum(spent)
		}
		first := look(settles)
		rate := (look(settles+lasts) - first) / lasts.Seconds() / testRate
		cancel()
		running.Wait()
		t.Logf("%d sidecars: %.3f of the limit in the long run; overshoot %.0f requests", n, rate, over/testCost.Seconds())
		if rate < 0.97 || rate > 1.03 {
			t.Errorf("%d sidecars: %.3f of the limit", n, rate)
		}
		for _, c := range cars {
			c.end()
		}
	}
}

// TestAcceptSplit is TestSplit with real sharers, in real time.
func TestAcceptSplit(t *testing.T) {
	r := newReal()
	var cars []*sidecar
	for range 5 {
		cars = append(cars, r.start(t))
	}
	together(t, cars...)
	ctx, cancel := context.WithCancel(context.Background())
	spent := make([]atomic.Int64, 5)
	running := greed(ctx, cars, spent)
	defer running.Wait()
	defer cancel()
	measure := func(d time.Duration) (a, b, both float64) {
		began, a0, b0 := time.Now(), sum(spent[:3]), sum(spent[3:])
		time.Sleep(d)
		over := time.Since(began).Seconds() * testRate
		a, b = (sum(spent[:3])-a0)/over, (sum(spent[3:])-b0)/over
		return a, b, a + b
	}
	time.Sleep(5 * time.Second)
	_, _, whole := measure(20 * time.Second)
	t.Logf("whole: %.3f of the limit", whole)
	r.network.split(1, r.addresses[3:]...)
	missed := max(together(t, cars[:3]...), together(t, cars[3:]...))
	time.Sleep(time.Second)
	a, b, _ := measure(55 * time.Second)
	t.Logf("split, noticed after %v: %.3f and %.3f", missed, a, b)
	r.Heal()
	healed := together(t, cars...)
	time.Sleep(2 * r.rules().epoch)
	_, _, first := measure(3 * time.Second)
	_, _, rest := measure(27 * time.Second)
	t.Logf("healed, seen after %v: %.3f in the first 3 s, %.3f in the 27 s after", healed, first, rest)
	if max(a, b, rest, whole) > 1.06 || min(a, b, rest, whole) < 0.94 {
		t.Error("that is not the limit")
	}
}

func (r *real) rules() rules { return testRules() }

// TestAcceptRestarts kills and restarts sidecars in turn under load.
func TestAcceptRestarts(t *testing.T) {
	r := newReal()
	var cars []*sidecar
	for range 5 {
		cars = append(cars, r.start(t))
	}
	together(t, cars...)
	cars[0].ask("debtor", 100*time.Second)
	spent := make([]atomic.Int64, 5)
	began := time.Now()
	for i := range cars {
		ctx, cancel := context.WithCancel(context.Background())
		running := greed(ctx, cars, spent)
		time.Sleep(5 * time.Second)
		cars[i].end()
		cars[i] = r.start(t)
		took := testkit.Eventually(t, "it knows of the debt", func() bool { return cars[i].level("debtor") < 0 })
		t.Logf("restart %d: the debts known after %v", i, took)
		cancel()
		running.Wait()
	}
	over := time.Since(began).Seconds()
	t.Logf("%.2f CPU-seconds let through in %.1f s, at a limit of %v/s and a burst of %v", sum(spent), over, testRate, testBurst)
	if s := sum(spent); s > testRate*over+testBurst+5*testBurst/5+1 {
		t.Error("that is too much")
	}
}

// TestAcceptManyKeys: 100,000 active keys on ten sidecars.
func TestAcceptManyKeys(t *testing.T) {
	for _, budget := range []int{64 << 10, 1 << 20} {
		for _, perSecond := range []int{1000, 5000} {
			t.Run(fmt.Sprintf("%d/%d", budget, perSecond), func(t *testing.T) { manyKeys(t, budget, perSecond) })
		}
	}
}

// manyKeys charges keys so many times a second at each sidecar.
func manyKeys(t *testing.T, budget, perSecond int) {
	const sidecars, keys, lasts = 10, 100_000, 20 * time.Second
	r := newReal()
	r.options.BytesPerSecond = budget
	var cars []*sidecar
	for range sidecars {
		cars = append(cars, r.start(t))
	}
	together(t, cars...)
	load := func(share bool) (cpu float64, sent uint64) {
		ctx, cancel := context.WithTimeout(context.Background(), lasts)
		defer cancel()
		var running sync.WaitGroup
		counts := uint64(0)
		var zipfs []*zipf
		for i, c := range cars {
			counts += c.State().Counts.Sent
			zipfs = append(zipfs, newZipf(uint64(i), keys))
		}
		used := cpuTime()
		for i, c := range cars {
			if share {
				running.Go(func() { c.crowd(ctx, zipfs[i], perSecond) })
			}
		}
		time.Sleep(lasts)
		cancel()
		running.Wait()
		for _, c := range cars {
			sent += c.State().Counts.Sent
		}
		return (cpuTime() - used).Seconds() / lasts.Seconds() / sidecars, sent - counts
	}
	idle, quiet := load(false)
	busy, sent := load(true)
	per := lasts.Seconds() * sidecars
	t.Logf("budget %d: idle %.2f %% of a CPU and %.0f B/s for each; %d keys charged %d times a second at each: %.2f %% and %.0f B/s",
		budget, 100*idle, float64(quiet)/per, keys, perSecond, 100*busy, float64(sent)/per)
	for i, c := range cars {
		t.Logf("sidecar %d: %+v", i, c.State().Counts)
	}
}

// TestAcceptRequests has ten thousand requests a second go through a limiter that
// is alone, and through one whose sharer is kept at work by two busy peers, in turn.
func TestAcceptRequests(t *testing.T) {
	r := newReal()
	cars := []*sidecar{r.start(t), r.start(t), r.start(t)}
	together(t, cars...)
	alone := limiter.New(time.Now(), testPolicy(), 1<<18, nil)
	for range 5 {
		for _, l := range []*limiter.Limiter{alone, cars[0].Limiter} {
			ctx, cancel := context.WithCancel(context.Background())
			var peers sync.WaitGroup
			for i, c := range cars[1:] { // in both cases, as they take CPU time as well
				peers.Go(func() { c.crowd(ctx, newZipf(uint64(i), 10_000), 1000) })
			}
			z := newZipf(9, 10_000)
			var took []time.Duration
			tick := time.NewTicker(time.Millisecond)
			for range 3000 {
				<-tick.C
				for range 10 {
					keys := []limiter.Key{testKey(z.draw())}
					began := time.Now()
					ticket := l.Arrive(began, limiter.Arrival{Client: keys[0], Others: keys[1:], Guess: time.Microsecond})
					l.Settle(began, ticket, time.Microsecond)
					l.Leave(began, ticket)
					took = append(took, time.Since(began))
				}
			}
			tick.Stop()
			cancel()
			peers.Wait()
			slices.Sort(took)
			t.Logf("alone %-5v p50 %v p99 %v p99.9 %v", l == alone, took[len(took)/2], took[len(took)*99/100], took[len(took)*999/1000])
		}
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
