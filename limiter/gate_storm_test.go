package limiter

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestCancelStorm has 10,000 requests cancelled while they wait and 10,000 killed
// while they run, from many goroutines, while a driver does all that it does. Time
// stands still, so that no debt may shrink.
func TestCancelStorm(t *testing.T) {
	const each = 10_000
	w := siegeOf("debtor", "a", "b")
	x := w.heavy("debtor")
	w.Progress(w.now, x, 10*time.Hour, true)
	deepest := credit(t, w, "debtor")
	w.heavy("a")
	w.heavy("b")

	stop := make(chan struct{})
	var driver, all sync.WaitGroup
	var latest atomic.Pointer[Ticket]
	driver.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			w.Advance(w.now)
			w.Measure(w.now, float64(i%3)/2)
			if x := latest.Load(); x != nil {
				w.Progress(w.now, x, time.Duration(i%7000)*time.Millisecond, true)
				w.Reguess(w.now, x, Estimate{Guess: time.Duration(i%300) * time.Millisecond, Sure: true})
			}
		}
	})
	var waiting, running atomic.Int32
	for worker := range 16 {
		all.Go(func() {
			for i := 0; waiting.Load() < each || running.Load() < each; i++ {
				client := "debtor"
				if i%3 > 0 {
					client = fmt.Sprint("client ", (worker+i)%50)
				}
				x := w.Arrive(w.now, Arrival{
					Client: host(client), Guess: time.Duration(i%20) * 25 * time.Millisecond, Sure: i%5 > 0, Proven: i%7 == 0,
				})
				latest.Store(x)
				select {
				case <-x.Decided():
					running.Add(1)
				default:
					waiting.Add(1)
				}
				w.Leave(w.now, x)
			}
		})
	}
	all.Wait()
	close(stop)
	driver.Wait()
	if got := credit(t, w, "debtor"); got > deepest {
		t.Errorf("the debt shrank from %g to %g", deepest, got)
	}
	w.Leave(w.now, x)
	w.gate.mu.Lock()
	for i, h := range w.gate.home.heaps() { // whoever waited behind the first ones has left
		if len(*h) > 0 {
			t.Errorf("heap %d still has %d", i, len(*h))
		}
	}
	if got := w.gate.home.clock.active; got < 0.2-1e-9 || got > 0.2+1e-9 {
		t.Errorf("the shares of those with work are %g, want those of two clients", got)
	}
	w.gate.mu.Unlock()
	if g := w.GateState(); g.Queued != 0 || g.Busy != 2 || from(&g.Computing, 0) != 2 || g.Holding != 0 || g.Probes != 0 {
		t.Errorf("two run, and nobody else: %+v", g)
	}
	// The one that ran for ten hours was never settled: all of it is given back.
	if got := credit(t, w, "debtor"); got != 30 || deepest != -24 {
		t.Errorf("the debt was %g, and is %g with the request that made it gone; want -24 and 30", deepest, got)
	}
}
