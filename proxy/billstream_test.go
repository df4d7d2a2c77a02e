package proxy

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/cpuaccount"
	"tempomat/proxy/workers"
)

// TestStreamIsForgiven: what a connection's process has used for it long ago does not count for
// its priority any more, or the process would be at the lowest one for good.
func TestStreamIsForgiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stepper
		r := startSteppingAt(t, shout, &s, noFailure(t))
		c, _ := converse(t, r)
		time.Sleep(forgives + 5*time.Second) // all of which it computes
		_ = c.Close()
		synctest.Wait()
		if got, want := s.seen(), []int{1, 2, 3, 0, 1, 2, 3, 0}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// TestLooksLessOften: requests whose process is not known, and connections that are open for
// hours, are looked at ever less often.
func TestLooksLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const long = 10 * time.Minute
		r := startVirtual(t, http.HandlerFunc(shout), func(s *setup) { s.source = cpuaccount.Process })
		c, _ := converse(t, r)
		tracker := workers.NewTracker(nil, nil, nil, func(error) {})
		looks := 0
		for from := time.Now(); time.Since(from) < long; time.Sleep(billEvery) {
			if r.handler.look(time.Now(), tracker); len(r.handler.bill.all) > 0 {
				looks++
			}
		}
		if most := 60 + int(long/mostBlind); looks < 10 || looks > most {
			t.Errorf("it was looked at %d times in %v, want %d at most", looks, long, most)
		}
		_ = c.Close()
		synctest.Wait()
		tracker.Close()
	})
}
