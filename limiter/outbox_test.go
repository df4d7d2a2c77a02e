package limiter_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter"
)

func TestOutbox(t *testing.T) {
	o := limiter.NewOutbox(16 * 4)
	if testkit.Ready(o.Filled()) {
		t.Error("an empty outbox reports that it is filled")
	}
	key := limiter.Key{Class: "slash32", ID: "a"}
	for i := range 6 {
		testkit.Same(t, i < 4, o.Offer(limiter.Charge{Key: key, Cost: time.Duration(i)}), "offer %d", i)
	}
	<-o.Filled()
	for range 2 {
		var got []time.Duration
		o.Drain(func(c limiter.Charge) { got = append(got, c.Cost) })
		testkit.Same(t, []time.Duration{0, 1, 2, 3}, got, "drained")
		for i := range 4 {
			o.Offer(limiter.Charge{Key: key, Cost: time.Duration(i)})
		}
		<-o.Filled()
	}
	testkit.Same(t, 2, o.Dropped(), "dropped")
}

// TestOutboxSignalsTheFirst: the channel from Filled receives one value when the first charge is added to an
// empty outbox.
func TestOutboxSignalsTheFirst(t *testing.T) {
	o := limiter.NewOutbox(1 << 10)
	for i, want := range []int{1, 0, 0} {
		o.Offer(limiter.Charge{Key: limiter.Key{Class: "slash32", ID: "a"}})
		testkit.Same(t, want, len(o.Filled()), "charge %d: signals from Filled", i)
		for range want {
			<-o.Filled()
		}
	}
}

// TestOutboxLosesNothingSilently fills and drains the outbox at the same time. Every charge that was accepted
// comes out once.
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
		t.Errorf("%d came out, %d were accepted, %d dropped", got, want, o.Dropped())
	}
}
