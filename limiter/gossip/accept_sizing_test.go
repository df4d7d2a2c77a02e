//go:build accept

package gossip

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// TestAcceptSizing is the table of docs/sizing.md: fleets of up to a thousand sidecars on
// virtual time, and one client that asks all of them together for fifty times what it may have.
func TestAcceptSizing(t *testing.T) {
	for n, lasts := range map[int]time.Duration{
		10: 90 * time.Second, 30: 90 * time.Second, 100: 90 * time.Second, 300: 30 * time.Second, 1000: 15 * time.Second,
	} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := newWorld(t, 1)
			w.fleet(n)
			sent := func() (sum float64) {
				for _, c := range w.cars {
					sum += float64(c.replica.counts.Sent)
				}
				return sum / float64(n)
			}
			const idles = 5 * time.Second
			quiet := sent()
			w.run(idles)
			busy := sent()
			used := cpuTime()
			rate, over := w.besiege(lasts)
			t.Logf("%.3f of the limit, overshoot %v requests of %d a second; each sends %.0f B/s, %.0f without charges, and takes %.2f %% of a CPU",
				rate, over, offered(), (sent()-busy)/lasts.Seconds(), (busy-quiet)/idles.Seconds(),
				100*(cpuTime()-used).Seconds()/lasts.Seconds()/float64(n))
			if most := 2 * w.rules.epoch.Seconds() * float64(offered()); math.Abs(rate-1) > 0.1 || over > most {
				t.Errorf("want the limit, and an overshoot of what it asks for in two epochs, %v", most)
			}
		})
	}
}
