package proxy

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/cpuaccount"
	"tempomat/internal/testkit"
	"tempomat/proxy/host"
)

// TestStreamStaysWhereItIs: the CPU use of a long-lived connection adds up, but doesn't affect its priority.
func TestStreamStaysWhereItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stepper
		r := startSteppingAt(t, shout, &s, noFailure(t))
		conn, _ := converse(t, r)
		time.Sleep(time.Minute)
		_ = conn.Close()
		synctest.Wait()
		testkit.Same(t, 0, len(s.seen()), "steps")
	})
}

// TestLooksLessOften: requests whose process is unknown, and connections that are open for hours, are checked
// less and less often.
func TestLooksLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const long = 10 * time.Minute
		r := startVirtual(t, http.HandlerFunc(shout), func(s *setup) { s.source = cpuaccount.Process })
		c, _ := converse(t, r)
		tracker := host.NewTracker(nil, nil, func(error) {})
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
