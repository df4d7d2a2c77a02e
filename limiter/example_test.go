package limiter_test

import (
	"fmt"
	"time"

	"tempomat/limiter"
)

// Under a hard ceiling, a client earns half a CPU-second per second, and has saved one CPU-second. Each of its pages
// costs 0.8 CPU-seconds. The example serves no real requests and never sleeps: the caller passes in the time and costs.
func Example() {
	start := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	l := limiter.New(start, limiter.Policy{
		Mode:    limiter.Cap,
		MaxHold: 30 * time.Second, MaxHeld: 100,
		Classes: []limiter.ClassInfo{{Name: "address", Budget: limiter.Budget{CPUs: 0.5, Burst: time.Second}}},
	}, 1000, nil)

	const cost = 800 * time.Millisecond
	for _, at := range []time.Duration{0, 500 * time.Millisecond, time.Second} {
		now := start.Add(at)
		t := l.Arrive(now, limiter.Arrival{
			Client: limiter.Key{Class: "address", ID: "203.0.113.7"},
			Guess:  cost, Sure: true,
		})
		next := l.Advance(now) // when to call Advance again
		select {
		case <-t.Decided():
		default:
			fmt.Println("it still owes for the page before")
			now = next
			l.Advance(now)
			<-t.Decided()
		}
		fmt.Printf("came at %v, waited %v\n", at, t.Verdict().Wait.Round(time.Millisecond))
		l.Settle(now, t, cost) // when the backend has answered
		l.Leave(now, t)
	}
	// Output:
	// came at 0s, waited 0s
	// came at 500ms, waited 0s
	// it still owes for the page before
	// came at 1s, waited 200ms
}
