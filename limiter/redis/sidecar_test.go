package redis

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter"
)

const (
	testRate  = 0.5
	testBurst = 1.0
)

func testPolicy() limiter.Policy {
	return limiter.Policy{
		Mode: limiter.Cap, MaxHold: time.Minute, MaxHeld: 1000,
		Classes: []limiter.ClassInfo{{Name: "slash32", Budget: limiter.Budget{
			CPUs: testRate, Burst: time.Duration(testBurst * float64(time.Second)),
		}}},
	}
}

func client(id string) limiter.Key { return limiter.Key{Class: "slash32", ID: id} }

// sidecar is a limiter with a Sharer and a driver. It runs until the test ends.
type sidecar struct {
	*limiter.Limiter
	sharer *Sharer
}

func startSidecar(t testing.TB, o Options) *sidecar {
	t.Helper()
	s := NewSharer(o, testPolicy())
	car := &sidecar{limiter.New(time.Now(), testPolicy(), 1<<12, s), s}
	ctx, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx, car) })
	running.Go(func() {
		ticks := time.NewTicker(time.Millisecond)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
			case <-car.Due():
			}
			car.Advance(time.Now())
		}
	})
	t.Cleanup(func() {
		end()
		running.Wait()
	})
	return car
}

// charge makes one request that starts at once.
func (c *sidecar) charge(id string, cost time.Duration) {
	now := time.Now()
	ticket := c.Arrive(now, limiter.Arrival{Client: client(id), Guess: cost})
	c.Settle(now, ticket, cost)
	c.Leave(now, ticket)
}

func (c *sidecar) level(id string) float64 {
	if r, ok := c.Find(time.Now(), client(id)); ok {
		return r.Level
	}
	return testBurst
}

var linkNumber atomic.Int64

// linked waits until a charge at one instance is known at another, and returns how long that took.
func linked(t testing.TB, from, to *sidecar) time.Duration {
	t.Helper()
	began := time.Now()
	id := fmt.Sprint("link-", linkNumber.Add(1))
	tries := 0
	testkit.Eventually(t, "the instances are connected", func() bool {
		if tries++; tries%25 == 1 {
			now := time.Now()
			from.sharer.Offer(limiter.Charge{Key: client(id), Cost: 5 * time.Second, At: now, Received: now, Until: now})
		}
		return to.level(id) < 0
	})
	return time.Since(began)
}

// load makes two instances serve clients that stay within their bursts.
type load struct {
	cars  [2]*sidecar
	stop  chan struct{}
	done  sync.WaitGroup
	mu    sync.Mutex
	spent map[string]float64
}

func startLoad(cars [2]*sidecar) *load {
	l := &load{cars: cars, stop: make(chan struct{}), spent: map[string]float64{}}
	for i, car := range cars {
		l.done.Go(func() {
			ticks := time.NewTicker(200 * time.Microsecond)
			defer ticks.Stop()
			for n := 0; ; n++ {
				select {
				case <-l.stop:
					return
				case <-ticks.C:
				}
				id := fmt.Sprint("client-", i, "-", n)
				car.charge(id, 20*time.Millisecond)
				l.mu.Lock()
				l.spent[id] += 0.02
				l.mu.Unlock()
			}
		})
	}
	return l
}

// end stops the load and reports clients that owe more than they have spent.
func (l *load) end(t *testing.T) {
	t.Helper()
	close(l.stop)
	l.done.Wait()
	for id, spent := range l.spent {
		for i, car := range l.cars {
			if level := car.level(id); level < testBurst-spent-0.001 {
				t.Errorf("sidecar %d: %s has %v, and spent %v of %v", i, id, level, spent, testBurst)
			}
		}
	}
}
