package main

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

// TestWatchdog: systemd gets no message while the request path is blocked, for whatever reason, or after another
// process serves.
func TestWatchdog(t *testing.T) {
	const every = 10 * time.Second
	for _, c := range []struct {
		name   string
		stands func(minute int) (driver, accepting, replaced bool)
		pings  []int64 // number of pings in each minute
	}{
		{"all is well", func(int) (bool, bool, bool) { return false, false, false }, []int64{6, 6, 6}},
		{"the driver stands still for a minute", func(m int) (bool, bool, bool) { return m == 1, false, false }, []int64{6, 0, 6}},
		{"the table of connections is locked for good", func(m int) (bool, bool, bool) { return false, m > 0, false }, []int64{6, 0, 0}},
		{"another process serves", func(m int) (bool, bool, bool) { return false, false, m == 2 }, []int64{6, 6, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				var all sync.WaitGroup
				defer all.Wait()
				defer stop()
				begin := time.Now()
				minute := func() int { return int(time.Since(begin) / time.Minute) }
				var passes, pings atomic.Int64
				all.Go(func() { // the driver
					for ctx.Err() == nil {
						if driver, _, _ := c.stands(minute()); !driver {
							passes.Add(1)
						}
						time.Sleep(100 * time.Millisecond)
					}
				})
				w := watchdog{
					passes: passes.Load, ping: func() { pings.Add(1) }, log: zap.NewNop(),
					serves: func() bool {
						_, accepting, replaced := c.stands(minute())
						if accepting {
							<-ctx.Done()
						}
						return !replaced
					},
				}
				time.Sleep(50 * time.Millisecond) // separates the passes of the driver from the pings
				all.Go(func() { w.run(ctx, every) })
				time.Sleep(time.Second)
				for m, want := range c.pings {
					before := pings.Load()
					time.Sleep(time.Minute)
					if got := pings.Load() - before; got < want-1 || got > want+1 {
						t.Errorf("minute %d: %d pings, want %d", m, got, want)
					}
				}
			})
		})
	}
}
