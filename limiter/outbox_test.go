package limiter_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tempomat/limiter"
)

func TestOutbox(t *testing.T) {
	o := limiter.NewOutbox(16 * 4)
	select {
	case <-o.Filled():
		t.Error("an empty outbox is filled")
	default:
	}
	key := limiter.Key{Class: "slash32", ID: "a"}
	for i := range 6 {
		if ok := o.Offer(limiter.Charge{Key: key, Cost: time.Duration(i)}); ok != (i < 4) {
			t.Errorf("offer %d: %v", i, ok)
		}
	}
	<-o.Filled()
	for range 2 {
		var got []time.Duration
		o.Drain(func(c limiter.Charge) { got = append(got, c.Cost) })
		if diff := cmp.Diff([]time.Duration{0, 1, 2, 3}, got); diff != "" {
			t.Errorf("drained, -want +got:\n%s", diff)
		}
		for i := range 4 {
			o.Offer(limiter.Charge{Key: key, Cost: time.Duration(i)})
		}
		<-o.Filled()
	}
	if o.Dropped() != 2 {
		t.Errorf("%d dropped, want 2", o.Dropped())
	}
}

// TestOutboxTellsOfTheFirst: that it is no longer empty is told once, as the first charge comes in.
func TestOutboxTellsOfTheFirst(t *testing.T) {
	o := limiter.NewOutbox(1 << 10)
	for i, want := range []int{1, 0, 0} {
		o.Offer(limiter.Charge{Key: limiter.Key{Class: "slash32", ID: "a"}})
		if got := len(o.Filled()); got != want {
			t.Errorf("charge %d: it is told %d times", i, got)
		}
		for range want {
			<-o.Filled()
		}
	}
}

// TestOutboxLosesNothingSilently fills and drains at the same time: all that was
// taken comes out, once.
func TestOutboxLosesNothingSilently(t *testing.T) {
	o := limiter.NewOutbox(1 << 10)
	var producers sync.WaitGroup
	taken := make([]int, 4)
	for p := range taken {
		producers.Go(func() {
			for i := range 20_000 {
				if o.Offer(limiter.Charge{Key: limiter.Key{Class: "c", ID: fmt.Sprint(i % 100)}}) {
					taken[p]++
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { producers.Wait(); close(done) }()
	got := 0
	for open := true; open; {
		select {
		case <-o.Filled():
		case <-done:
			open = false
		}
		o.Drain(func(limiter.Charge) { got++ })
	}
	if want := taken[0] + taken[1] + taken[2] + taken[3]; got != want || want+int(o.Dropped()) != 80_000 {
		t.Errorf("%d came out, %d were taken, %d dropped", got, want, o.Dropped())
	}
}
