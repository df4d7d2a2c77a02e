package proxy

import (
	"context"
	"time"
)

// tick is how often running requests are charged on. It bounds how much longer
// a misjudged request goes unnoticed, and what the meter's look at the crowd
// misses.
const tick = 100 * time.Millisecond

// Drive tells the limiter the time until the context ends: it releases what
// waits when it is due, and charges on what runs. The Handler needs exactly one
// goroutine that does this.
func (h *Handler) Drive(ctx context.Context) {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			h.progress()
		case <-due.C:
		case <-h.limiter.Due():
		}
		now := time.Now()
		if next := h.limiter.Advance(now); next.IsZero() {
			due.Stop()
		} else {
			due.Reset(next.Sub(now))
		}
	}
}

// progress charges on what runs.
func (h *Handler) progress() {
	now := time.Now()
	h.running.each(func(x *exchange) {
		soFar := x.span.SoFar(now)
		if x.ticket != nil {
			h.limiter.Progress(now, x.ticket, soFar)
		}
	})
}
