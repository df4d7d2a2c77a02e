package proxy

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/cpuaccount"
	"tempomat/proxy/host"
)

// TestStreamIsForgiven: what a connection's process has used for it long ago does not count for
// its priority any more, or the process would be at the lowest one for good. While it computes
// it stays there, or whoever calls its answer a stream would be ahead of others.
func TestStreamIsForgiven(t *testing.T) {
	for name, c := range map[string]struct {
		busy time.Duration
		want []int // until the connection is closed
	}{
		"it computes all the time": {0, []int{1, 2, 3}},
		"it computed once":         {forgives / 2, []int{1, 2, 3, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stepper{busy: c.busy}
				r := startSteppingAt(t, shout, &s, noFailure(t))
				conn, _ := converse(t, r)
				time.Sleep(3*forgives + 5*time.Second)
				if got := s.seen(); !slices.Equal(got, c.want) {
					t.Errorf("%v, want %v", got, c.want)
				}
				_ = conn.Close()
				synctest.Wait()
				if got := s.seen(); got[len(got)-1] != 0 {
					t.Errorf("%v, and it was not put back", got)
				}
			})
		})
	}
}

// TestLooksLessOften: requests whose process is not known, and connections that are open for
// hours, are looked at ever less often.
func TestLooksLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const long = 10 * time.Minute
		r := startVirtual(t, http.HandlerFunc(shout), func(s *setup) { s.source = cpuaccount.Process })
		c, _ := converse(t, r)
		tracker := host.NewTracker(nil, nil, nil, func(error) {})
		looks := 0
		for from := time.Now(); time.Since(from) < long; time.Sleep(billEvery) {
			if r.handler.lookAtWork(time.Now(), tracker); len(r.handler.bill.all) > 0 {
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
